"""Checked sections become one `Simulation`."""
