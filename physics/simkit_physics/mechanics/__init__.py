"""mechanics: oscillators, pendulums and orbits."""
