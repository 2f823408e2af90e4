"""Models written in the file."""
