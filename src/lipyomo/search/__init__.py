"""Branch and bound: an engine that knows no networks, and what it asks of those that do."""
