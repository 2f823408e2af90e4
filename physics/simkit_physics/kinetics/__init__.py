"""reaction networks: chemical kinetics, gene expression, populations and epidemics."""
