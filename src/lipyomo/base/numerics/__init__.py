"""Arithmetic that can be trusted: linear programs with safe bounds, exact numbers."""
