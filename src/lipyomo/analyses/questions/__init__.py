"""Analyses besides Lipschitz constants: ranges of values and derivatives, largest values."""
