"""Upper bounds: by intervals, lines and linear programs, and by semidefinite programs."""
