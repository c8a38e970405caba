"""Convex sets on which the Lipschitz constant is taken: boxes, balls, polytopes, all of R^d."""

from lipyomo.problems.domains.base import Domain, Rows
from lipyomo.problems.domains.box import AllSpace, Box
from lipyomo.problems.domains.norm_ball import NormBall, ball
from lipyomo.problems.domains.polytope import Polytope

__all__ = ["AllSpace", "Box", "Domain", "NormBall", "Polytope", "Rows", "ball"]
