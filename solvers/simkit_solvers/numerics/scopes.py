"""Names that mark places in compiled programs, for whoever looks into these; they change nothing else."""

STEPS = "simkit_steps"  # the turn of a loop in which paths advance
STEPS_WITHIN = "simkit_loop"  # a loop of another library, each turn of which is a step
