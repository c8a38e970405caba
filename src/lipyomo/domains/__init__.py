"""Convex sets on which the Lipschitz constant is taken: boxes, balls, polytopes, all of R^d."""

from lipyomo.domains.base import Domain, Rows
from lipyomo.domains.box import AllSpace, Box
from lipyomo.domains.norm_ball import NormBall, ball
from lipyomo.domains.polytope import Polytope

__all__ = ["AllSpace", "Box", "Domain", "NormBall", "Polytope", "Rows", "ball"]
