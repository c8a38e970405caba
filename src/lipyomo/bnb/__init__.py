"""Branch and bound over activation patterns and input boxes, with semidefinite node bounds."""
