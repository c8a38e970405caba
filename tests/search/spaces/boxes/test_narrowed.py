"""Narrowing a wide network's domain down to what can beat what is attained."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Status
from lipyomo.base.clock import Clock
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.primal.heuristics.evaluate import sampled_norms
from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.inputs import HalfSpace, Inputs, Signal, spans
from lipyomo.search.spaces.boxes.split import cut
from lipyomo.search.spaces.boxes.wide.chords import with_chords


def tanh_network(seed, inputs=18):
    rng = np.random.default_rng(seed)
    layers, sizes = [], [inputs, 12, 12, 2]
    for k, (before, after) in enumerate(pairwise(sizes)):
        weight = rng.normal(size=(after, before)) * (1.0 if k == 2 else 1.5) / np.sqrt(before)
        bias = 0.3 * rng.normal(size=after)
        curves = (Curve(activation("tanh"), np.arange(after)),) if k < 2 else ()
        layers.append(Layer(weight, bias, curves=curves))
    return Network(layers)


def problem_of(seed, radius):
    return LipschitzProblem(tanh_network(seed), Box(-radius, radius, 18), output_norm="linf")


@pytest.mark.parametrize("boxes", [1, 6])
@pytest.mark.parametrize("seed", range(10))
def test_spans_hold_a_linear_program_and_one_box_has_its_optimum(seed, boxes):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(boxes, 5))
    high = low + rng.exponential(size=(boxes, 5)) * rng.integers(0, 2, size=(boxes, 5))
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    rows = rng.normal(size=(boxes, 4, 5))
    g = rng.normal(size=(boxes, 5)) * rng.integers(0, 2, size=(boxes, 5))
    reach = (np.abs(g) * radius).sum(axis=1)
    h = (g * middle).sum(axis=1) + rng.uniform(-1, 1, size=boxes) * reach
    h[rng.random(boxes) < 0.2] = np.inf
    size = np.maximum(np.abs(low), np.abs(high))
    x = Signal(middle, radius * (1 + 1e-15), size)
    down, up = spans(rows, Inputs(x, x, HalfSpace(g, h)), 1e-14)
    for k in range(boxes):
        box = list(zip(low[k], high[k], strict=True))
        within = {} if np.isinf(h[k]) else {"A_ub": g[k][None], "b_ub": [h[k] + 1e-13]}
        for row, least, most in zip(rows[k], -down[k], up[k], strict=True):
            for sign, end in ((1.0, least), (-1.0, -most)):
                best = scipy.optimize.linprog(sign * row, bounds=box, **within)
                assert best.status == 0
                true = best.fun - sign * (row @ middle[k])
                assert end <= true + 1e-11
                if boxes == 1:
                    assert end >= true - 1e-9


@pytest.mark.parametrize(("seed", "radius"), [(0, 0.02), (1, 0.1), (0, 1.0)])
def test_narrowed_bounds_are_bounds(seed, radius):
    problem = problem_of(seed, radius)
    points = problem.domain.sample(np.random.default_rng(seed), 2000)
    corners = np.sign(points) * radius
    sampled = max(sampled_norms(problem, points).max(), sampled_norms(problem, corners).max())
    context = BoxContext.of(BoxQuestion(problem))
    whole = Boxes.whole(context)
    plain = with_chords(context, whole, Clock()).bound
    for cutoff in (0.5 * sampled, sampled, 0.5 * (sampled + plain), 2.0 * plain):
        bound = with_chords(context, whole, Clock(), cutoff).bound
        assert sampled <= bound <= plain


@pytest.mark.parametrize("seed", [0, 5])
def test_a_maximum_in_a_corner_needs_no_split(seed):
    problem = problem_of(seed, 0.02)
    result = lipyomo.solve(problem)
    assert result.status is Status.EXACT
    assert result.nodes == 0
    points = problem.domain.sample(np.random.default_rng(seed), 2000)
    assert sampled_norms(problem, np.sign(points) * 0.02).max() <= result.upper


def test_a_clock_that_has_run_out_leaves_the_bounds_as_they_were():
    context = BoxContext.of(BoxQuestion(problem_of(0, 0.1)))
    whole = Boxes.whole(context)
    left = with_chords(context, whole, Clock(0.0), 0.0)
    assert (left.bounds == math.inf).all()


@pytest.mark.reference
def test_the_image_network_is_exact_on_a_small_cube(shared):
    network = lipyomo.load(shared / "smooth" / "mnist_tanh.onnx")
    center = np.load(shared / "smooth" / "mnist_tanh.npy").reshape(-1).astype(float)
    cube = Box(center - 1 / 255, center + 1 / 255)
    result = lipyomo.solve(LipschitzProblem(network, cube, output_norm="linf"))
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(222.310410, rel=1e-6)


@pytest.mark.parametrize("norms", [("linf", "linf"), ("l1", "linf"), ("l2", "l2"), ("linf", "l2")])
def test_the_half_space_of_a_cut_holds_all_that_is_above_the_cutoff(norms):
    problem = LipschitzProblem(tanh_network(1, 4), Box(-1, 1, 4), *norms)
    context = BoxContext.of(BoxQuestion(problem))
    points = problem.domain.sample(np.random.default_rng(0), 4000)
    values = sampled_norms(problem, points)
    cutoff = 0.9 * values.max()
    found = bounded(context, Boxes.whole(context), cutoff)
    found = found.take(np.flatnonzero(found.boxes.bounds > cutoff))
    above = points[values > cutoff]
    left, held = cut(found), np.zeros(len(above), dtype=bool)
    for k in range(len(left)):
        inside = above @ left.half[k] <= left.room[k]
        held |= inside & ((left.low[k] <= above) & (above <= left.high[k])).all(axis=1)
    assert len(above)
    assert held.all()


def test_deep_networks_have_no_worse_bound_than_the_simple_methods():
    rng = np.random.default_rng(0)
    sizes, layers = [3, 40, 40, 40, 40, 1], []
    for before, units in pairwise(sizes):
        weight = rng.uniform(-1, 1, (units, before)) / np.sqrt(before)
        curves = (Curve(activation("tanh"), np.arange(units)),) if units > 1 else ()
        layers.append(Layer(weight, np.zeros(units), curves=curves))
    problem = LipschitzProblem(Network(layers), Box(-1, 1, 3), "l2")
    result = lipyomo.solve(problem, "bnb", time_limit=0.5)
    for method in ("naive", "interval"):
        assert result.lower <= result.upper <= lipyomo.solve(problem, method, attain=False).upper
