"""One section of an experiment each: from its keys to what a simulation needs of it."""
