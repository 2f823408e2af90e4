"""YAML text becomes checked sections, with every mistake at its place in the file."""
