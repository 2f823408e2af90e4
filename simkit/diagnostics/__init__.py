"""A look inside."""
