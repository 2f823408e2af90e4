"""Names that mark places in compiled programs, for tools that inspect them; they change nothing else."""

STEPS = "simkit_steps"  # the iteration of a loop in which paths advance
STEPS_WITHIN = "simkit_loop"  # a loop of another library, each iteration of which is a step
