"""Bounds of gradients with open signs: chords of absolute values hold and tighten wide roots."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lipyomo.base.clock import Clock
from lipyomo.networks.activations import HALVES, activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Box, Domain, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.norm import Norm
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline
from lipyomo.search.spaces.boxes.wide.chords import chords, with_chords

TANH = Curve(activation("tanh"), range(8))


def test_lines_lie_above_absolute_values() -> None:
    rng = np.random.default_rng(0)
    ends = rng.normal(size=(2, 5000)) * 10.0 ** rng.uniform(-300, 300, (2, 5000))
    low, high = np.sort(ends, axis=0)
    low[:50], high[:50] = -(2.0**-1074), 2.0**-1074
    low[50:100], high[50:100] = 0.0, np.abs(high[50:100])
    alpha, beta = chords(low, high)
    assert (np.abs(alpha) <= 1.0).all()
    for row in zip(low.tolist(), high.tolist(), alpha.tolist(), beta.tolist(), strict=True):
        *ends_, slope, offset = map(Fraction, row)
        lost = Fraction(2.0**-1073)  # of products below the normal numbers
        assert all(abs(g) <= slope * g + offset + lost for g in ends_)


def network(seed: int, inputs: int) -> Network:
    rng = np.random.default_rng(seed)
    shapes = (9, inputs), (7, 9), (2, 7)
    weights = [rng.normal(size=shape) / np.sqrt(shape[1]) * 2 for shape in shapes]
    kind = ("tanh", "gelu", "elu")[seed % 3]
    biases = [rng.normal(size=len(w)) for w in weights]
    return Network.from_arrays(weights, biases, activation=kind)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("radius", [1e-9, 0.05, 1.0])
def test_bounds_hold(seed: int, radius: float) -> None:
    net = network(seed, 6)
    center = np.random.default_rng(seed).normal(size=6)
    where: Domain = Box(center - radius, center + radius)
    if seed % 2:
        where = ball(center, radius, "l2")
    problem = LipschitzProblem(net, where, "linf", "linf")
    context = BoxContext.of(BoxQuestion(problem))
    found = with_chords(context, Boxes.whole(context), Clock())
    gradients = [net.jacobian_at(x) for x in where.sample(np.random.default_rng(1), 500)]
    attained = np.abs(gradients).sum(axis=2).max(axis=0)
    assert (found.bounds >= attained[found.rows] * (1 - 1e-12)).all()


def test_roots_with_open_signs_are_tighter() -> None:
    context = BoxContext.of(BoxQuestion(LipschitzProblem(network(0, 30), Box(-0.1, 0.1, 30))))
    whole = bounded(context, Boxes.whole(context), -math.inf, decide=True).boxes
    plain = bounded(context, whole, -math.inf).boxes
    assert with_chords(context, plain, Clock()).bound < 0.95 * plain.bound


def test_boxes_whose_known_bounds_are_less_are_not_narrowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = BoxContext.of(BoxQuestion(LipschitzProblem(network(0, 30), Box(-0.3, 0.3, 30))))
    whole = Boxes.whole(context)
    loose = with_chords(context, whole, Clock())
    known = replace(whole, bounds=0.5 * loose.bounds)

    def narrowed(*_: object) -> float:
        raise AssertionError("chords are far above what is known")

    monkeypatch.setattr("lipyomo.search.spaces.boxes.wide.chords._narrowed", narrowed)
    assert (with_chords(context, known, Clock(), 0.0).bounds == known.bounds).all()


def test_wide_roots_tell_semidefinite_bounds_before_chords() -> None:
    problem = LipschitzProblem(network(0, 40), Box(-1.0, 1.0, 40))
    told: list[float] = []

    def on_progress(**on_progress: object) -> None:
        if isinstance(upper := on_progress.get("upper"), float):
            told.append(upper)

    BoxPipeline(Norm(BoxQuestion(problem))).root(Clock(), on_progress)
    context = BoxContext.of(BoxQuestion(problem))
    whole = bounded(context, Boxes.whole(context), -math.inf, decide=True).boxes
    by_chords = with_chords(context, bounded(context, whole, -math.inf).boxes, Clock(), 0.0)
    assert told == sorted(told, reverse=True)
    assert told[1] < 0.9 * by_chords.bound  # the one after the affine bound


def product_network(seed: int, inputs: int) -> Network:
    """Products of tanh units of sums of all inputs, and their sums."""
    rng = np.random.default_rng(seed)
    first = Layer(rng.normal(size=(8, inputs)) / 2.0, rng.normal(size=8), curves=(TANH,))
    sums, differences = rng.normal(size=(2, 3, 8))
    rows = np.vstack([sums, differences])
    halves = tuple(Curve(half, range(3 * k, 3 * k + 3)) for k, half in enumerate(HALVES))
    second = Layer(rows, rng.normal(size=6), curves=halves)
    signs = np.kron([[1.0, -1.0]], rng.normal(size=(2, 3)))
    return Network([first, second, Layer(signs, np.zeros(2))])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("radius", [0.01, 0.2])
def test_signs_and_bounds_of_wide_networks_with_products(seed: int, radius: float) -> None:
    net = product_network(seed, 12)
    problem = LipschitzProblem(net, Box(-radius, radius, 12), "linf", "linf")
    context = BoxContext.of(BoxQuestion(problem))
    assert context.structure.multiplies
    whole = bounded(context, Boxes.whole(context), -math.inf, decide=True).boxes
    found = with_chords(context, whole, Clock())
    gradients = [net.jacobian_at(x) for x in problem.domain.sample(np.random.default_rng(1), 300)]
    attained = np.abs(gradients).sum(axis=2).max(axis=0)
    assert (found.bounds >= attained[found.rows] * (1 - 1e-12)).all()
    signs = np.sign(gradients)[:, found.rows]
    assert ((found.v_low <= signs) & (signs <= found.v_high)).all()
    if radius < 0.1:
        assert (found.v_low == found.v_high).mean() > 0.8
        assert found.bound < 1.1 * attained.max() < whole.bound
