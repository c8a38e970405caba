"""Semidefinite bounds: multipliers of branch-and-bound nodes, and CVXPY models of the papers."""
