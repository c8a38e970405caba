"""Foundations without networks: errors, arguments, arrays, numerics, the system, pictures."""
