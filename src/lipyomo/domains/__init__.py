"""Convex sets on which the Lipschitz constant is taken: boxes, balls, polytopes, all of R^d."""

from lipyomo.domains.bodies import AllSpace, Box, Domain, NormBall, Rows, ball
from lipyomo.domains.polytope import Polytope

__all__ = ["AllSpace", "Box", "Domain", "NormBall", "Polytope", "Rows", "ball"]
