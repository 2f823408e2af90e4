"""chemistry: reaction rates and oscillating reactions."""
