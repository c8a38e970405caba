"""Inequalities of single units: true on all of their curves, and violated by what they are for."""

import numpy as np
import pytest

from lipyomo.networks.activations import Tanh, activation, activations
from lipyomo.relaxations.semidefinite.curved_cuts import CurvePieces, least_values, violated


def ranges(rng, count):
    middle, radius = 2.0 * rng.normal(size=count), np.exp(rng.uniform(-3.0, 1.5, count))
    return middle - radius, middle + radius


def on_curve(kind, low, high, count=400):
    """Points (1, z, y, s) of units, with both ends and breaks."""
    share = np.linspace(0.0, 1.0, count)[:, None]
    z = np.clip(low + share * (high - low), low, high)
    breaks = [np.clip(at, low, high)[None] for at in kind.breaks]
    z = np.concatenate([z, low[None], high[None], *breaks])
    return np.stack([np.ones_like(z), z, kind.value(z), kind.slope(z)], axis=2)


@pytest.mark.parametrize("name", activations())
@pytest.mark.parametrize("entries", [3, 4])
def test_inequalities_hold_on_the_curve_and_are_violated(name, entries):
    kind, rng = activation(name), np.random.default_rng(11)
    low, high = ranges(rng, 20)
    pieces = CurvePieces.of(kind, low, high)
    points = on_curve(kind, low, high)[:, :, [0, 1, 3] if entries == 3 else [0, 1, 2, 3]]
    span = points.max(axis=0) - points.min(axis=0)
    off = points.mean(axis=0) + 0.6 * span * rng.choice([-1.0, 1.0], span.shape)
    off[:, 0] = 1.0
    cuts = violated(pieces, off[:, :, None] * off[:, None, :])
    assert cuts.units.size >= 10
    left, right = (np.einsum("nka,pna->pnk", part, points[:, cuts.units]) for part in cuts[1:])
    values = (left * right).sum(axis=2)
    assert values.min() >= 0.0
    low = least_values(pieces.seen(entries).take(cuts.units), cuts.left, cuts.right)
    assert (low <= values.min(axis=0)).all()
    at = [np.einsum("nka,na->nk", part, off[cuts.units]) for part in cuts[1:]]
    assert ((at[0] * at[1]).sum(axis=1) < 0.0).all()


def test_moments_of_the_curve_violate_nothing():
    kind, rng = Tanh(), np.random.default_rng(2)
    low, high = ranges(rng, 10)
    points = on_curve(kind, low, high)[::40]
    shares = rng.dirichlet(np.ones(len(points)), 10)
    moments = np.einsum("np,pna,pnb->nab", shares, points, points)
    assert violated(CurvePieces.of(kind, low, high), moments).units.size == 0


def test_least_values_are_those_of_a_parabola():
    """Of a unit on [-1, 3], (z - 2) z has its least value at 1."""
    pieces = CurvePieces.of(Tanh(), np.array([-1.0]), np.array([3.0]))
    left, right = np.array([[[-2.0, 1.0, 0.0, 0.0]]]), np.array([[[0.0, 1.0, 0.0, 0.0]]])
    assert -1.0 - 1e-12 <= least_values(pieces, left, right)[0] <= -1.0


def test_units_at_one_point_have_none():
    here = np.array([0.5, -1.0])
    pieces = CurvePieces.of(Tanh(), here, here)
    point = np.stack([np.ones(2), here, np.tanh(here), 1.0 - np.tanh(here) ** 2], axis=1)
    assert violated(pieces, point[:, :, None] * point[:, None, :]).units.size == 0


def test_least_squares_that_do_not_end_give_no_inequality(monkeypatch):
    def endless(*arguments):
        raise RuntimeError("Maximum number of iterations reached.")

    low, high = np.array([-1.0]), np.array([2.0])
    point = np.array([[1.0, 0.5, -1.0, 0.0]])
    pieces, moments = CurvePieces.of(Tanh(), low, high), point[:, :, None] * point[:, None, :]
    assert violated(pieces, moments).units.size == 1
    monkeypatch.setattr("lipyomo.relaxations.semidefinite.curved_cuts.nnls", endless)
    assert violated(pieces, moments).units.size == 0
