"""The oracle of smooth networks against definitions, samples, known constants and the exact one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from fuzz_families import draw
from fuzz_networks import normals
from fuzz_oracle import PlainDomain
from smooth_curves import (
    COS,
    ERF,
    GELU,
    GELU_TANH,
    HARD_SWISH,
    MISH,
    SIGMOID,
    SILU,
    SIN,
    SOFTPLUS,
    SOFTSIGN,
    TANH,
    Curve,
    celu,
    elu,
    selu,
    swish,
    two_slope,
)
from smooth_oracle import BITS, CurvedLayer, SmoothOracle

from lipyomo import LipyomoError

LINE = two_slope(1.0, 1.0)


def _gelu(z: float) -> float:
    return 0.5 * z * math.erfc(-z / math.sqrt(2.0))


def _gelu_tanh(z: float) -> float:
    return 0.5 * z * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * z**3)))


DEFINITIONS = [
    (TANH, math.tanh),
    (SIGMOID, lambda z: 1.0 / (1.0 + math.exp(-z))),
    (SOFTPLUS, lambda z: math.log1p(math.exp(z))),
    (GELU, _gelu),
    (GELU_TANH, _gelu_tanh),
    (SILU, lambda z: z / (1.0 + math.exp(-z))),
    (swish(1.702), lambda z: z / (1.0 + math.exp(-1.702 * z))),
    (MISH, lambda z: z * math.tanh(math.log1p(math.exp(z)))),
    (ERF, math.erf),
    (SIN, math.sin),
    (COS, math.cos),
    (SOFTSIGN, lambda z: z / (1.0 + abs(z))),
    (HARD_SWISH, lambda z: z * min(max(z / 6.0 + 0.5, 0.0), 1.0)),
    (elu(0.7), lambda z: z if z > 0 else 0.7 * math.expm1(z)),
    (celu(0.7), lambda z: z if z > 0 else 0.7 * math.expm1(z / 0.7)),
    (selu(1.5, 1.1), lambda z: 1.1 * (z if z > 0 else 1.5 * math.expm1(z))),
    (two_slope(0.1, 1.0), lambda z: z if z > 0 else 0.1 * z),
]


@pytest.fixture(autouse=True)
def precision():
    before = ctx.prec
    ctx.prec = BITS
    yield
    ctx.prec = before


def _whole(curve: Curve, z: arb):
    return curve.over(z, 0, len(curve.breaks))


@pytest.mark.parametrize(("curve", "function"), DEFINITIONS, ids=lambda v: getattr(v, "name", ""))
def test_values_are_those_of_the_definitions(curve, function):
    for z in [-30.0, -3.0, -2.9, -1e-3, 0.0, 1e-9, 0.5, 2.9, 3.0, 7.0, 30.0]:
        value = _whole(curve, arb(z))[0]
        assert float(value) == pytest.approx(function(z), rel=1e-13, abs=1e-15)
        assert value.rad() < 1e-15


@pytest.mark.parametrize("curve", [curve for curve, _ in DEFINITIONS], ids=lambda c: c.name)
def test_ranges_agree_with_differences_of_values(curve):
    """Chords have slopes in the range of slopes, and so have chords of slopes in curvatures'."""
    rng = np.random.default_rng(0)
    for k in range(300):
        middle = float(rng.choice([0.0, 1.0, -3.0, 3.0, 20.0, -60.0, 70.0, 1e4])) + rng.normal()
        width = 10.0 ** rng.uniform(-9, 2 + k % 3)
        z = arb(middle).union(arb(middle + width))
        value, slope, curvature = _whole(curve, z)
        points = [arb(middle + width * t) for t in sorted(rng.uniform(0, 1, 3))]
        at = [_whole(curve, point) for point in points]
        assert all(value.overlaps(v) and slope.overlaps(s) for v, s, _ in at)
        for i in (0, 1):
            step = points[i + 1] - points[i]
            assert (at[i + 1][0] - at[i][0]).overlaps(slope * step)
            if not any(points[0] < at_ < points[2] for at_ in curve.breaks):
                assert (at[i + 1][1] - at[i][1]).overlaps(curvature * step)


def test_a_side_goes_on_by_its_tangent():
    left = elu(0.5).over(arb(1).union(arb(2)), 0, 0)
    assert left[0].overlaps(arb("0.5"))
    assert left[0].overlaps(arb(1))
    assert left[0] <= 1.01
    assert float(left[1]) == 0.5
    assert left[2].is_zero()
    right = elu(0.5).over(arb(-1), 1, 1)
    assert (float(right[0]), float(right[1])) == (-1.0, 1.0)


def _line(weights, biases, curves) -> list[CurvedLayer]:
    return [
        CurvedLayer(np.array(w, dtype=float), np.array(b, dtype=float), tuple(c))
        for w, b, c in zip(weights, biases, curves, strict=True)
    ]


def _box(low, high) -> PlainDomain:
    low, high = (np.atleast_1d(side).astype(float) for side in (low, high))
    return PlainDomain(low, high, np.zeros((0, len(low))), np.zeros(0))


def _constant(layers, low, high, norm="linf", functionals=(1.0,), **options) -> arb:
    rows = None if functionals is None else [np.atleast_1d(functionals).astype(float)]
    return SmoothOracle(layers, _box(low, high), norm, rows, **options).constant()


@pytest.mark.parametrize(
    ("curve", "largest"),
    [
        (TANH, 1.0), (SIGMOID, 0.25), (GELU, 1.128904), (GELU_TANH, 1.128993), (SILU, 1.099839),
        (SIN, 1.0), (HARD_SWISH, 1.5), (elu(2.0), 2.0), (elu(0.5), 1.0), (SOFTSIGN, 1.0),
        (two_slope(-3.0, 1.0), 3.0),
    ],
    ids=lambda v: getattr(v, "name", ""),
)  # fmt: skip
def test_largest_slopes_of_single_units(curve, largest):
    layers = _line([[[2.0]], [[1.0]]], [[0.1], [0.0]], [[curve], [LINE]])
    found = _constant(layers, -5.0, 4.0, target=1e-7)
    assert float(found) == pytest.approx(2 * largest, rel=1e-6)
    assert found.rad() < 1e-6


@pytest.mark.parametrize("factor", [1.0, 0.5, 3.0])
def test_opposite_kinks_do_not_act_together(factor):
    """relu(t) + relu(-t) has slopes of size one; ranges of slopes alone would say two."""
    relu = two_slope(0.0, 1.0)
    layers = _line(
        [[[1.0], [-factor]], [[1.0, 1.0 / factor]]],
        [[0.25, -0.25 * factor], [0.0]],
        [[relu] * 2, [LINE]],
    )
    assert float(_constant(layers, -1.0, 1.0).upper()) == pytest.approx(1.0, rel=1e-3)


def test_constant_units_have_no_hyperplanes_in_common_with_others():
    """The kink at zero is the first unit's; the second one is constant, with a break at zero."""
    layers = _line(
        [[[-2.0], [0.0]], [[1.0, 1.0]]],
        [[0.0, -0.05], [0.0]],
        [[elu(2.0), elu(1.0)], [LINE]],
    )
    assert float(_constant(layers, -1.0, 1.0)) == pytest.approx(4.0, rel=1e-3)


def test_frozen_inputs_do_not_count():
    layers = _line([[[1.0, 5.0]], [[1.0]]], [[0.0], [0.0]], [[TANH], [LINE]])
    found = _constant(layers, [-1.0, 0.1], [1.0, 0.1], target=1e-9)
    assert float(found) == pytest.approx(1.0 - math.tanh(0.0) ** 2, rel=1e-6)


def _sampled(layers: list[CurvedLayer], low, high, norm: str, functionals, rng) -> float:
    """The largest norm of central differences at random points, in 128 bits."""
    step, best = arb(2) ** -50, 0.0
    m, d = layers[-1].weight.shape[0], layers[0].weight.shape[1]

    def value(x):
        h = x
        for i, layer in enumerate(layers):
            h = [
                sum((arb(float(w)) * v for w, v in zip(row, h, strict=True)), arb(float(b)))
                for row, b in zip(layer.weight, layer.bias, strict=True)
            ]
            if i < len(layers) - 1:
                h = [_whole(c, z)[0] for c, z in zip(layer.curves, h, strict=True)]
        return h

    for _ in range(25):
        x = [arb(float(v)) for v in rng.uniform(low, high)]
        jacobian = np.zeros((m, d))
        for j in range(d):
            up, down = ([v + s * (k == j) for k, v in enumerate(x)] for s in (step, -step))
            jacobian[:, j] = [
                float((a - b) / (2 * step)) for a, b in zip(value(up), value(down), strict=True)
            ]
        best = max(best, _norm(jacobian, norm, functionals))
    return best


def _norm(jacobian, norm, functionals) -> float:
    dual = {"linf": 1, "l2": 2, "l1": np.inf}[norm]
    if functionals is not None:
        return max(float(np.linalg.norm(c @ jacobian, dual)) for c in functionals)
    if norm == "l2":
        return float(np.linalg.norm(jacobian, 2))
    if norm == "l1":
        return float(np.linalg.norm(jacobian, axis=0).max())
    d = jacobian.shape[1]
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1)
    return float(np.linalg.norm(jacobian @ corners, axis=0).max())


CURVES = [curve for curve, _ in DEFINITIONS]


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
@pytest.mark.parametrize("euclidean", [False, True])
def test_samples_stay_below(norm, euclidean):
    rng = np.random.default_rng(3)
    for k in range(12):
        d, n = int(rng.integers(1, 3)), int(rng.integers(1, 4))
        curves = [CURVES[int(i)] for i in rng.integers(0, len(CURVES), 2 * n)]
        layers = _line(
            [normals(rng, (n, d)), normals(rng, (n, n)), normals(rng, (2, n))],
            [normals(rng, (n,)), normals(rng, (n,)), np.zeros(2)],
            [curves[:n], curves[n:], [LINE] * 2],
        )
        low = rng.uniform(-1, 0, d)
        high = low + 10.0 ** rng.uniform(-3, 0.5)
        rows = None if euclidean else [np.array([1.0, 0.0]), np.array([-0.5, 1.0])]
        oracle = SmoothOracle(layers, _box(low, high), norm, rows, most=600)
        found = oracle.constant()
        sampled = _sampled(layers, low, high, norm, rows, rng)
        assert sampled <= float(found.upper()) * (1 + 1e-9), k
        assert float(found.lower()) >= 0.3 * sampled - 1e-9, k


@pytest.mark.parametrize("family", ["plain", "ties", "faces", "duplicates"])
def test_contains_the_exact_constant_of_two_slope_networks(family):
    compared = narrow = 0
    for seed in range(25):
        try:
            sample = draw(family, seed)
        except LipyomoError:
            continue
        oracle = sample.oracle
        if not sample.problem.domain.is_bounded or sample.problem.network.kinked_units > 6:
            continue
        if oracle.functionals is None and oracle.input_norm == "l2":
            continue
        layers = [
            CurvedLayer(v.weight, v.bias, tuple(map(two_slope, v.left.tolist(), v.right.tolist())))
            for v in oracle.layers
        ]
        smooth = SmoothOracle(
            layers, oracle.domain, oracle.input_norm, oracle.functionals, most=400
        )
        found = smooth.constant()
        assert found.overlaps(oracle.constant()), (family, seed)
        compared += 1
        narrow += bool(found.rad() <= 1e-2 * found.mid())
    assert compared >= 8
    assert narrow >= compared / 3


@pytest.mark.parametrize("curve", [TANH, SIGMOID, SOFTPLUS, GELU, SILU, MISH, ERF])
def test_far_out_curves_are_their_asymptotes(curve: Curve) -> None:
    """A witness of a network with such a unit was called false: its value was within one."""
    (piece,) = curve.pieces
    for z in (-1e17, 1e17):
        value = piece.over(arb(z))[0]
        assert value.rad() < 1e-15
        assert value.overlaps(arb(curve_at_infinity(curve, z)))


def curve_at_infinity(curve: Curve, z: float) -> float:
    """What floating-point numbers make of the definition at an argument of either sign."""
    if curve in (TANH, ERF):
        return math.copysign(1.0, z)
    return float(z > 0) if curve is SIGMOID else max(z, 0.0)


def test_pieces_end_at_their_breaks_however_wide_the_ball_is() -> None:
    """A ball from zero to 1e12 reaches a hundred below zero: softsign's slope had a pole there."""
    for z in (arb(0, 1e12), arb(5e11).union(arb(-1))):
        value, slope, _ = SOFTSIGN.over(z, 0, 1)
        assert slope.contains(arb(1))
        assert slope < 1.1
        assert abs(value) < 1.1
