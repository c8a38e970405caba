"""From a problem to mixed-integer models: cells of the domain, model, starts, no-good cuts."""
