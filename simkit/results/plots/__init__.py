"""Pictures of runs and of variants."""
