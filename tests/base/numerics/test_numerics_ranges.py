"""Means of ranges hold what points have, in exact arithmetic, for shares of any size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lipyomo.base.numerics.ranges import mean, mean_size


@pytest.mark.parametrize("far", [1.0, 1e3, 1e9])
def test_means_lie_in_their_range_but_for_rounding_of_their_terms(far: float) -> None:
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(size=(3, 2, 200)), axis=1) + 0.5
    ends[0] *= far
    share, first, second = ((low, high) for low, high in ends)
    low, high = mean(share, first, second)
    room = 8 * 2.0**-53 * mean_size(share, first, second)
    for k in range(200):
        corners = [
            (1 - g) * a + g * b
            for g in map(Fraction, ends[0, :, k])
            for a in map(Fraction, ends[1, :, k])
            for b in map(Fraction, ends[2, :, k])
        ]
        off = Fraction(room[k])
        assert abs(Fraction(low[k]) - min(corners)) <= off
        assert abs(Fraction(high[k]) - max(corners)) <= off
