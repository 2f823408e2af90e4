"""nonlinear dynamics: chaos, limit cycles and synchronization."""
