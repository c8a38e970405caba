"""Proofs in boxes of networks with two-slope units, all pairs of a box together."""
