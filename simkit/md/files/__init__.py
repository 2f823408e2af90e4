"""Files of particles: extended XYZ, LAMMPS data, PDB, GRO, DCD and Zarr datasets."""
