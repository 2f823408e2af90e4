"""Files of particles: extended XYZ and LAMMPS data."""
