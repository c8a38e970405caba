"""Programs in which slopes depend on the inputs: what is true is feasible there."""

import math

import numpy as np
import pytest

from lipyomo.networks.activations import (
    Gelu,
    Sigmoid,
    Softplus,
    Tanh,
    activation,
    activations,
)
from lipyomo.relaxations.semidefinite.curved_ball import PreactivationBall
from lipyomo.relaxations.semidefinite.curved_descent import CurvedDescent
from lipyomo.relaxations.semidefinite.curved_model import CurvedLayer, CurvedModel, adjoint_ends
from lipyomo.relaxations.semidefinite.curved_units import CurvePieces, raised

KINDS = [Tanh(), Sigmoid(), Gelu(), Softplus()]


def build(rng, sizes, kinds, low, high, scale=1.0):
    """Random layers with all that is known of them, by interval arithmetic, and the head's row."""
    layers, ends = [], (low, high)
    for before, units, kind in zip(sizes[:-1], sizes[1:], kinds, strict=True):
        weight = scale * rng.normal(size=(units, before)) / np.sqrt(before)
        bias = rng.normal(size=units)
        middle, radius = 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0])
        reach = np.abs(weight) @ radius + 1e-12 * (1.0 + np.abs(weight) @ np.abs(middle))
        z = (weight @ middle + bias - reach, weight @ middle + bias + reach)
        layers.append(known(weight, bias, z, kind))
        ends = layers[-1].y
    return layers, rng.normal(size=sizes[-1])


def known(weight, bias, z, kind):
    """A layer with what follows from the ranges of z."""
    pieces = CurvePieces.of(kind, *z)
    return CurvedLayer(weight, bias, z, kind.enclose(*z), kind.slope_range(*z), pieces)


def ball_of(layers, low, high):
    return PreactivationBall.of(layers[0].weight, layers[0].bias, low, high)


def passed(layers, kinds, row, x):
    """Pre-activations, values, slopes, adjoints b and t at a point."""
    z, y, s, h = [], [], [], x
    for layer, kind in zip(layers, kinds, strict=True):
        z.append(layer.weight @ h + layer.bias)
        h = kind.value(z[-1])
        y.append(h)
        s.append(kind.slope(z[-1]))
    t = [s[-1] * row]
    for layer, slope in zip(layers[:0:-1], s[-2::-1], strict=True):
        t.insert(0, slope * (layer.weight.T @ t[0]))
    return z, y, s, t


def norm_at(layers, kinds, row, x):
    return float(np.abs(layers[0].weight.T @ passed(layers, kinds, row, x)[3][0]).sum())


def bounds_of(layers, low, high, row):
    """Bounds of a program, one after another."""
    descent = CurvedDescent(CurvedModel(layers, ball_of(layers, low, high), row, row), 1.0)
    found = []
    while not descent.done:
        found.append(descent.lowered(math.inf, lambda seconds: False))
    return found


def bound_of(layers, low, high, row):
    return min(bounds_of(layers, low, high, row))


@pytest.mark.parametrize("sizes", [(9, 5), (8, 6, 4), (7, 4, 5, 3)])
def test_true_points_are_feasible_and_the_objective_is_above_the_norm(sizes):
    rng = np.random.default_rng(len(sizes))
    low = rng.normal(size=sizes[0])
    high = low + rng.uniform(0.1, 1.0, sizes[0])
    kinds = [Tanh(), Sigmoid(), Gelu()][: len(sizes) - 1]
    layers, row = build(rng, sizes, kinds, low, high)
    ball = ball_of(layers, low, high)
    model = CurvedModel(layers, ball, row, row)
    program = model.program(rng.uniform(0.1, 1.0, sizes[0]))

    def scaled(values, ends):
        return (values - 0.5 * (ends[0] + ends[1])) / (0.5 * (ends[1] - ends[0]))

    for _ in range(40):
        x = np.where(rng.random(sizes[0]) < 0.5, low, high)
        x = x if rng.random() < 0.5 else rng.uniform(low, high)
        z, y, s, t = passed(layers, kinds, row, x)
        u = np.linalg.solve(ball.turn, z[0] - ball.middle)
        assert np.linalg.norm(u) <= 1.0 + 1e-9
        parts = [u] + [scaled(a, layer.s) for a, layer in zip(s, layers, strict=True)]
        parts += [scaled(a, layer.y) for a, layer in zip(y[:-1], layers, strict=False)]
        w = np.concatenate([[1.0], *parts, np.zeros(program.variables)])[: program.variables]
        for k, exact in enumerate(t[:-1]):  # t has a variable each, whose range is the model's own
            at = program.variables - sum(sizes[1:-1]) + sum(sizes[1 : k + 1])
            units = np.arange(at, at + sizes[k + 1])
            if k == 0:
                form = model._adjoint
                w[units] = (exact - form[:, 0]) / form[np.arange(len(units)), units]
            else:
                b = layers[k + 1].weight.T @ t[k + 1]
                low_b, high_b = adjoint_ends(layers, row, row)[k]
                assert (low_b <= b + 1e-9).all()
                assert (b <= high_b + 1e-9).all()
                ends = np.stack([low_b * layers[k].s[0], low_b * layers[k].s[1]])
                ends = np.concatenate([ends, [high_b * layers[k].s[0], high_b * layers[k].s[1]]])
                w[units] = scaled(exact, (ends.min(axis=0), ends.max(axis=0)))
        assert np.abs(w).max() <= 1.0 + 1e-9
        wide = np.concatenate([w, program.extension @ w])
        products = np.bincount(program.owners, (program.left @ wide) * (program.right @ wide))
        assert products.min(initial=0.0) >= -1e-8
        for curves, pieces in zip(model.curves, model._pieces, strict=True):
            Q = rng.normal(size=(len(curves.columns), *2 * curves.columns.shape[1:]))
            c, Q = wide[curves.columns], raised(pieces, Q + Q.transpose(0, 2, 1))
            assert np.einsum("na,nab,nb->n", c, Q, c).min() >= -1e-8
        assert np.abs(products[program.equality]).max(initial=0.0) <= 1e-8
        assert w @ program.objective @ w >= norm_at(layers, kinds, row, x) * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_nothing_that_is_attained_is_above_the_bound(kind, scale):
    rng = np.random.default_rng(5)
    low, high = -rng.uniform(0.0, 0.3, 12), rng.uniform(0.1, 0.3, 12)
    layers, row = build(rng, (12, 6, 4), [kind, kind], low, high, scale)
    bound = bound_of(layers, low, high, row)
    points = np.where(rng.random((300, 12)) < 0.5, low, high)
    found = max(norm_at(layers, [kind, kind], row, x) for x in points)
    widest = np.abs(row) * np.maximum(np.abs(layers[1].s[0]), np.abs(layers[1].s[1]))
    for layer in (layers[1], layers[0]):
        widest = widest @ np.abs(layer.weight)
        if layer is layers[1]:
            widest = widest * np.maximum(np.abs(layers[0].s[0]), np.abs(layers[0].s[1]))
    assert found <= bound <= widest.sum()


@pytest.mark.parametrize("name", sorted(set(activations()) - {"two_slope"}))
def test_no_bound_on_the_way_is_below_what_is_attained(name):
    kind, rng = activation(name), np.random.default_rng(7)
    low, high = -rng.uniform(0.5, 1.0, 6), rng.uniform(0.5, 1.0, 6)
    layers, row = build(rng, (6, 4, 3, 3), [kind] * 3, low, high, 2.0)
    found = bounds_of(layers, low, high, row)
    points = rng.uniform(low, high, (300, 6))
    points[:100] = np.where(rng.random((100, 6)) < 0.5, low, high)
    attained = max(norm_at(layers, [kind] * 3, row, x) for x in points)
    assert attained <= min(found)
    assert found[-1] < found[0]


@pytest.mark.parametrize("kind", [Tanh(), Sigmoid()], ids=lambda kind: kind.name)
def test_units_that_are_nearly_linear_and_saturated_ones(kind):
    """Ranges of a millionth and of twenty, and values that hardly differ from one."""
    rng = np.random.default_rng(3)
    low, high = -np.ones(8), np.ones(8)
    weight = rng.normal(size=(5, 8)) * np.array([1e-6, 1e-3, 1.0, 3.0, 1.0])[:, None]
    bias, row = np.array([0.3, -0.2, 0.0, 1.0, 12.0]), rng.normal(size=5)
    reach = np.abs(weight).sum(axis=1)
    layers = [known(weight, bias, (bias - reach, bias + reach), kind)]
    points = np.where(rng.random((300, 8)) < 0.5, low, high)
    attained = max(norm_at(layers, [kind], row, x) for x in points)
    slopes = np.maximum(np.abs(layers[0].s[0]), np.abs(layers[0].s[1]))
    bound = bound_of(layers, low, high, row)
    assert attained <= bound <= (np.abs(row) * slopes * reach).sum() * (1.0 + 1e-3)


def test_degenerate_layers():
    rng = np.random.default_rng(0)
    low, high = np.zeros(6), np.where(np.arange(6) < 3, 0.0, 0.4)
    layers, row = build(rng, (6, 5), [Tanh()], low, high)
    weight = layers[0].weight.copy()
    weight[1], weight[2], weight[3] = weight[0], 0.0, 1e-9 * weight[0]
    z = weight @ high
    z = np.minimum(z, 0) - np.abs(weight).sum(axis=1), np.abs(weight).sum(axis=1)
    bias, kind = np.zeros(5), Tanh()
    layers = [known(weight, bias, z, kind)]
    bound = bound_of(layers, low, high, row)
    found = max(norm_at(layers, [kind], row, x) for x in rng.uniform(low, high, (200, 6)))
    assert found <= bound < math.inf
    assert PreactivationBall.of(weight, bias, low, low) is None  # a point


def test_slopes_that_depend_on_inputs_lead_to_less_than_their_ranges():
    """One hidden layer, many inputs: the ball keeps units from being at their steepest together."""
    rng = np.random.default_rng(1)
    d, n = 100, 10
    low, high = -0.15 * np.ones(d), 0.15 * np.ones(d)
    weight, bias, row = rng.normal(size=(n, d)) / np.sqrt(d), 2.0 * np.ones(n), np.ones(n)
    reach = np.abs(weight) @ high
    one = known(weight, bias, (bias - reach, bias + reach), Sigmoid())
    entries = np.abs((weight * (row * one.s[1])[:, None]).sum(axis=0)).sum()
    assert bound_of([one], low, high, row) < 0.95 * entries
