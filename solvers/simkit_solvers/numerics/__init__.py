"""Small kernels without a notion of time or noise."""
