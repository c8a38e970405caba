"""Branch and bound: an engine that knows no networks, what it splits, and what it looks for."""
