"""What is measured along a path."""
