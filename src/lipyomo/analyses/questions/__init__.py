"""What can be asked beside one constant: ranges of values and derivatives, largest values."""
