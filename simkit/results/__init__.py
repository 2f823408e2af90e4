"""What is kept and shown of a run."""
