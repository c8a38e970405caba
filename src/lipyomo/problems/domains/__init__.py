"""Convex sets on which the Lipschitz constant is taken: boxes, balls, polytopes, all of R^d."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipyomo.base.modules import imported_when_used
from lipyomo.problems.domains.base import Domain, LinearRows
from lipyomo.problems.domains.box import AllSpace, Box

if TYPE_CHECKING:
    from lipyomo.problems.domains.norm_ball import NormBall, ball
    from lipyomo.problems.domains.polytope import Polytope

__all__ = ["AllSpace", "Box", "Domain", "LinearRows", "NormBall", "Polytope", "ball"]

__getattr__, __dir__ = imported_when_used(
    __name__,
    {
        ".norm_ball": (
            "NormBall",
            "ball",
        ),
        ".polytope": ("Polytope",),
    },
)
