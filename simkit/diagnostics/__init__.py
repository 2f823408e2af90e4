"""What a run compiles and costs, and why a path failed."""
