"""Gradient norms at points: evaluation of many patterns, and local search."""
