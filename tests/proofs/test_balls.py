"""Arrays of balls: they hold the true numbers, and are taken for nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from lipyomo import Network
from lipyomo_check.parts import BITS
from lipyomo_check.smooth.balls import Balls, alike, in_balls, outwards, plain
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.strict import ChainInBalls, boxes_in_balls
from tests.proofs.test_joint_proofs import boxes_of, gated, normalised, question_of
from tests.proofs.test_product_proofs import SAMPLES
from tests.proofs.test_smooth_proofs import random_network


def fractions_of(numbers: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(numbers)


def hold(found: object, exact: np.ndarray) -> bool:
    """Whether balls hold these numbers, and are narrow."""
    assert isinstance(found, Balls)
    assert found.shape == exact.shape
    pairs = zip(found.data.ravel().tolist(), exact.ravel().tolist(), strict=True)
    return all(
        (ball - fmpq(v.numerator, v.denominator)).contains(0) and ball.rad() < 1e-60
        for ball, v in pairs
    )


@pytest.mark.parametrize("seed", range(10))
def test_they_hold_what_fractions_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, B, c = rng.standard_normal((3, 2, 4)), rng.standard_normal((4, 5)), rng.standard_normal(4)
    a, b, d = map(fractions_of, (A, B, c))
    with ctx.workprec(BITS):
        x, y, z = map(in_balls, (A, B, c))
        assert hold(x @ y, a @ b)
        assert hold(x @ B, a @ b)
        assert hold(y.T @ x.transpose(0, 2, 1), b.T @ a.transpose(0, 2, 1))
        assert hold(x[:, None] @ x.transpose(0, 2, 1), a[:, None] @ a.transpose(0, 2, 1))
        assert hold(A @ y, a @ b)
        assert hold(x @ z, a @ d)
        assert hold(x * z - np.abs(x) / 3.0, a * d - abs(a) / 3)
        assert hold(np.maximum(x, C := x[::-1]), np.maximum(a, a[::-1]))
        assert hold(np.minimum(C, A), np.minimum(a[::-1], a))
        assert hold(x.max(axis=1), a.max(axis=1))
        assert hold(x.sum(axis=2), a.sum(axis=2))
        assert hold(np.where(A > 0.0, x, 0.0), np.where(A > 0.0, a, Fraction(0)))
        assert hold(np.concatenate([x, A], axis=2), np.concatenate([a, a], axis=2))
        assert hold(np.stack([x, x])[1], a)
        x[0] += 1.0
        assert hold(x[0], a[0] + 1)
        low, high = map(plain, outwards(y / 3.0, y / 3.0))
        assert (fractions_of(low) < b / 3).all()
        assert (fractions_of(high) > b / 3).all()


def test_comparisons_are_sure() -> None:
    balls = Balls(np.array([arb(0, 1e-9), arb(1), arb("nan")], dtype=object))
    assert (balls > 0.0).tolist() == [False, True, False]
    assert (balls <= 0.0).tolist() == [False, False, False]
    assert (balls == 0.0).tolist() == [False, False, False]
    assert np.isfinite(balls).tolist() == [True, True, False]
    assert plain(np.fmin(balls, 0.5)).tolist()[1:] == [0.5, 0.5]
    roots = np.sqrt(balls)[0]
    assert roots.is_finite()
    assert roots**2 >= 1e-9


def test_they_are_no_float64_numbers() -> None:
    balls = in_balls(np.ones(3))
    with pytest.raises(TypeError):
        np.asarray(balls)
    with pytest.raises(TypeError):
        np.abs((balls, balls))
    with pytest.raises(TypeError):
        np.median(balls)
    with pytest.raises(TypeError):
        np.sin(balls)
    with pytest.raises(TypeError):
        np.zeros(3)[:] = balls
    assert alike(np.ones(2), np.ones(1)).tolist() == [1.0, 1.0]
    assert isinstance(alike(np.ones(2), balls), Balls)


def slopes_in(network: Network, boxes: Boxes, rng: np.random.Generator) -> np.ndarray:
    """The largest sums of absolute derivatives (N,) at some points of boxes."""
    d = network.input_dim
    largest = np.zeros(len(boxes.low))
    for share in (*itertools.product((0.0, 1.0), repeat=d), *rng.random((20, d))):
        x = boxes.low + share * (boxes.high - boxes.low)
        steps = 1e-6 * np.eye(d)
        slopes = np.stack([(network(x + h) - network(x - h))[:, 0] for h in steps]) / 2e-6
        largest = np.maximum(largest, np.abs(slopes).sum(axis=0))
    return largest


NETWORKS = {
    "-".join(mix): random_network([2, 4, 3, 1], mix, seed=1)
    for mix in (["tanh", "relu"], ["gelu", "mish", "erf"], ["elu", "softplus", "sin"])
} | {"gated": gated(1), "normalised": normalised(0), "quotient": SAMPLES["quotient"]}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("bits", [10, BITS])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_hold_whatever_is_chosen_and_however_wide_balls_are(
    name: str, noise: float, bits: int, wide: bool
) -> None:
    """Few bits, and functionals of which only the size is known, make comparisons uncertain.

    Noise makes planes bad ones.  Bounds stay bounds.
    """
    rng, network = np.random.default_rng(0), NETWORKS[name]
    statement, question = question_of(network)
    centre, reach = rng.uniform(-1, 1, (10, 2)), 2.0 ** -rng.uniform(0, 12, (10, 1))
    boxes = boxes_of(question, centre - reach, centre + reach, np.ones((10, 2)))
    functionals = np.where(rng.random((10, 1)) < 0.5, -1.0, 1.0)

    def noisy(numbers: np.ndarray) -> np.ndarray:
        return numbers + noise * (1.0 + np.abs(numbers)) * rng.standard_normal(numbers.shape)

    known, planes = question.chain.bound(functionals, boxes), []
    for own in known.planes:
        sums = noisy(own.sums)
        sums[:, 4] = rng.integers(0, 2, sums[:, 4].shape) if noise else own.sums[:, 4]
        planes.append(
            own._replace(s=noisy(own.s), r=noisy(own.r), points=noisy(own.points), sums=sums)
        )
    with ctx.workprec(bits):
        exact = ChainInBalls(question.chain, hidden_of(statement))
        found = exact.bound(
            in_balls(functionals) * (arb(0, 1) if wide else arb(1)),
            boxes_in_balls(boxes),
            known=replace(known, planes=tuple(planes)),
        )
        ends = [float(ball.upper()) for ball in found.upper.data]
    assert np.isfinite(ends).any()
    assert (slopes_in(network, boxes, rng) <= np.nan_to_num(ends, nan=np.inf) + 1e-6).all()
