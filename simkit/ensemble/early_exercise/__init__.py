"""Early exercise: a policy found on paths of its own, and bounds of what a right is worth."""
