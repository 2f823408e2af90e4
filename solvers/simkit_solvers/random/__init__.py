"""From a key to words, to variates, to the noise of a path."""
