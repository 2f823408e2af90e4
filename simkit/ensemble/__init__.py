"""Many paths."""
