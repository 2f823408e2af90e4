"""statistical physics: particles in contact with heat."""
