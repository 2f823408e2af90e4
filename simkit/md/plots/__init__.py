"""Pictures of runs of particles."""
