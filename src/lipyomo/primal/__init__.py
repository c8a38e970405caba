"""Lower bounds: points that are attained, and the search for better ones."""
