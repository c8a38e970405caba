"""Products of a domain with intervals of further inputs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import DomainError
from lipyomo.problems.domains.base import Domain
from lipyomo.problems.domains.box import Box
from lipyomo.problems.domains.polytope import Polytope


def beside(domain: Domain, lower: FloatArray, upper: FloatArray) -> Domain:
    """Return the domain of (x, e) with x in `domain` and ``lower <= e <= upper``, shape (k,).

    Raises
    ------
    DomainError
        If the domain is round.
    """
    low, high = np.append(domain.lower, lower), np.append(domain.upper, upper)
    if domain.is_box:
        return Box(low, high)
    if not domain.is_polyhedral:
        raise DomainError(
            f"the domain is round ({domain.describe()}), and errors of rounding are further inputs "
            "beside it.  Remedy: a box, or a ball of the linf norm"
        )
    rows = domain.rows
    none = sp.csr_array((rows.count, lower.size))
    return Polytope(sp.hstack([rows.A, none], format="csr"), rows.b, low, high)
