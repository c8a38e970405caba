"""Reliable arithmetic: linear programs with safe bounds, and exact numbers."""
