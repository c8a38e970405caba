"""The reduced problem is the one that was given, number for number: in fractions, at any point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from fuzz_families import FAMILIES, draw

from lipyomo import LipyomoError, Network

SEEDS = range(6)


def exactly(network: Network, x: list[Fraction]) -> list[Fraction]:
    h = x
    for layer in network.layers:
        out = []
        for row, bias, *slopes in zip(
            layer.dense_weight.tolist(),
            layer.bias.tolist(),
            layer.left.tolist(),
            layer.right.tolist(),
            strict=True,
        ):
            pairs = [(w, v) for w, v in zip(row, h, strict=True) if w != 0]
            z = sum((Fraction(w) * v for w, v in pairs), Fraction(bias))
            out.append(Fraction(slopes[z >= 0]) * z)
        h = out
    return h


@pytest.mark.parametrize("family", FAMILIES)
def test_reduction_does_not_round(family: str) -> None:
    rng, seen = np.random.default_rng(0), 0
    for seed in SEEDS:
        try:
            reduced = draw(family, seed).problem.reduced
            network = draw(family, seed).problem.network
        except LipyomoError:
            continue
        for _ in range(3):
            x = rng.standard_normal(int(reduced.moving.sum()))
            given = [Fraction(v) for v in reduced.lift_point(x).tolist()]
            here = exactly(reduced.problem.network, [Fraction(v) for v in x.tolist()])
            assert here == exactly(network, given), (family, seed)
            seen += 1
    assert seen > len(SEEDS)
