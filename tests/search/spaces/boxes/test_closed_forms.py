"""Units that pass their argument on, against exact values and the general bands."""

from fractions import Fraction

import numpy as np
import pytest

from lipyomo.networks.activations import TwoSlope
from lipyomo.search.spaces.boxes.structure.closed_forms import Passed

COUNT = 300
FORM, GENERAL = Passed(1.0, 1.0), TwoSlope(1.0, 1.0)


def _drawn() -> list[np.ndarray]:
    """A, c, both ends, f: of all sizes, some zero, some intervals single points."""
    rng = np.random.default_rng(5)
    A, c, low, width, f = rng.normal(size=(5, COUNT)) * 10.0 ** rng.integers(-9, 2, (5, COUNT))
    A[:30], c[20:50] = 0.0, 0.0
    width[60:90] = 0.0
    low = np.clip(low, -30.0, 30.0)
    return [A, c, low, np.minimum(low + np.abs(width), 40.0), f]


@pytest.mark.parametrize("bent", [False, True])
def test_exact_values_are_between(bent: bool) -> None:
    A, c, low, high, f = _drawn()
    k = np.zeros(COUNT)
    if bent:
        s, k, under, over = FORM.parabolas(A, c, low, high, f)
        rough = GENERAL.parabolas(A, c, low, high, f)[2:]
    else:
        s, under, over = FORM.lines(A, c, low, high)
        rough = GENERAL.lines(A, c, low, high)[1:]
    for n in range(COUNT):
        exact = [Fraction(float(part[n])) for part in (A, c, s, k, f)]
        a, b, slope, bend, point = exact
        for share in (0, Fraction(1, 3), Fraction(1, 2), 1):
            z = Fraction(float(low[n])) + share * Fraction(float(high[n] - low[n]))
            value = a * z + b
            rest = value - slope * z - bend * (z - point) ** 2 / 2
            assert Fraction(float(under[n])) <= rest <= Fraction(float(over[n]))
    room = 1e-12 * (np.abs(A) * (1.0 + low**2 + high**2 + f**2) + np.abs(c))
    assert (over - under <= rough[1] - rough[0] + room).all()
