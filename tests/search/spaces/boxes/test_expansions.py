"""Quotients of quadratic functions near the middles of boxes."""

import numpy as np
import pytest

from lipyomo.search.spaces.boxes.bounding.rows_over_roots import expanded
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics

UNIT = 1e-14


def quadratics(rng: np.random.Generator, width: float, constant: float) -> Quadratics:
    """Functions of three inputs on boxes of a width, in four groups of two."""
    bends = width**2 * rng.normal(size=(6, 4, 2))
    linear = width * rng.normal(size=(3, 4, 2))
    error = width**3 * rng.random((4, 2))
    middle = constant + rng.normal(size=(4, 2)) * 0.1
    return Quadratics(middle, linear, bends, error, 9.0 + 0.0 * middle)


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_quotients_are_within_their_expansions_of_third_order(exponent: float) -> None:
    errors = []
    for width in (0.02, 0.01):
        rng = np.random.default_rng(0)
        p, v = quadratics(rng, width, 1.0), quadratics(rng, width, 2.0)
        points = np.concatenate(
            [rng.uniform(-1.0, 1.0, (150, 3)), rng.choice([-1.0, 1.0], (50, 3))]
        )
        shifts = rng.choice([-1.0, 1.0], (200, 2))
        ends = v.ends(UNIT)
        k, beside = expanded(p, v, ends, exponent, UNIT)
        for point, shift in zip(points, shifts, strict=True):
            e = np.broadcast_to(point[:, None, None], p.linear.shape)
            quotient = (p.at(e) + shift[0] * p.error) / (v.at(e) + shift[1] * v.error) ** exponent
            assert (np.abs(quotient - k - beside.at(e)) <= beside.error).all()
        errors.append(beside.error.mean())
    assert errors[1] < errors[0] / 7.0
