"""What is solved."""
