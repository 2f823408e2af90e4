"""The formula language."""
