"""Many steps."""
