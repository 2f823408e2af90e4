"""Early exercise: a policy fitted on paths of its own, and bounds of the value of an option."""
