"""What is split: boxes of inputs (smooth networks), or phases of units (piecewise-linear ones)."""
