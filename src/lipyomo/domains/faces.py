"""Balls that are polyhedra, written as such: for models that know linear rows only."""

from __future__ import annotations

from itertools import product

import numpy as np

from lipyomo.domains.ball import NormBall
from lipyomo.domains.base import Domain
from lipyomo.domains.box import Box
from lipyomo.domains.polytope import Polytope

MOST_INPUTS = 8
"""An l1 ball in R^d has 2^d faces; with more inputs than this they are not written out."""


def polyhedral(domain: Domain) -> Domain | None:
    """The domain by its box and rows, rounded outwards by less than 1e-15; None if it is curved.

    Parameters
    ----------
    domain : Domain

    Returns
    -------
    Domain or None
        `domain` itself if its box and rows are all of it; a `Box` for a ball in one dimension; a
        `Polytope` for an l1 ball with few faces.
    """
    if domain.is_polyhedral:
        return domain
    if not isinstance(domain, NormBall):
        return None
    if domain.dimension == 1:
        return Box(domain.lower, domain.upper)
    if domain.norm != "l1" or domain.dimension > MOST_INPUTS:
        return None
    signs = np.array(list(product((-1.0, 1.0), repeat=domain.dimension)))
    size = domain.radius + float(np.abs(domain.point).sum())
    room = 2.0**-52 * (domain.dimension + 2) * size
    return Polytope(signs, signs @ domain.point + domain.radius + room, domain.lower, domain.upper)
