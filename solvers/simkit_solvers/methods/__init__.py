"""One step of each method, and the registry that finds them by name."""
