"""One step of each method of molecular dynamics."""
