"""Narrowing a wide network's domain down to what can beat what is attained."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Status
from lipyomo.activations import activation
from lipyomo.network import Curve, Layer
from lipyomo.run import Clock
from lipyomo.sampling.evaluate import sampled_norms
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.chords import with_chords
from lipyomo.search.smooth.context import Context, Question
from lipyomo.search.smooth.inputs import Row, Signal, largest


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


@pytest.mark.parametrize("seed", range(20))
def test_maxima_over_a_box_and_a_half_space_are_those_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=5)
    high = low + rng.exponential(size=5) * rng.integers(0, 2, size=5)
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    rows, g = rng.normal(size=(4, 5)), rng.normal(size=5) * rng.integers(0, 2, size=5)
    least, most = (g * middle + s * np.abs(g) * radius for s in (-1.0, 1.0))
    h = float(least.sum() + rng.random() * (most - least).sum())
    size = np.maximum(np.abs(low), np.abs(high))
    x = Signal(middle[None], radius[None] * (1 + 1e-15), size[None])
    found = largest(rows, x, Row(g, h), 1e-14)
    for row, top in zip(rows, found, strict=True):
        best = scipy.optimize.linprog(
            -row, A_ub=g[None], b_ub=[h + 1e-13], bounds=list(zip(low, high, strict=True))
        )
        assert best.status == 0
        assert -best.fun <= top + 1e-11
        assert top <= -best.fun + 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("radius", [0.02, 0.1, 1.0])
def test_narrowed_bounds_are_bounds(seed, radius):
    problem = problem_of(seed, radius)
    points = problem.domain.sample(np.random.default_rng(seed), 2000)
    corners = np.sign(points) * radius
    sampled = max(sampled_norms(problem, points).max(), sampled_norms(problem, corners).max())
    context = Context.of(Question(problem))
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
    context = Context.of(Question(problem_of(0, 0.1)))
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
