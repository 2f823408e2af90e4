"""What a run records while it is at work, so that another process can finish it with the same bits."""
