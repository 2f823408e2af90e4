"""One step of each method, and the registry of all methods by name."""
