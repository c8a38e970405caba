"""A network under partial phases as affine maps: in float64, in magnitudes, without rounding."""
