"""Mixed-integer models of a problem: cells of the domain, models, warm starts, no-good cuts."""
