"""Quadratic functions and terms of third order on cubes, their sums and their bounds."""
