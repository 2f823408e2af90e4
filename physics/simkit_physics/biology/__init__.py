"""biology: nerve cells."""
