"""What is simulated: ensembles of paths, or particles. Commands and `simkit.run` treat both alike."""
