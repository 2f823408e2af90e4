"""Looking inside a run: what is compiled, what it costs, and what depends on what."""
