"""Moves from points to others: by noise, across kinks, and towards others that are known."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.primal.heuristics.ascent import pulled_inside
from lipyomo.primal.heuristics.landscape import GoodPoints, Landscape
from lipyomo.problems.affine.signal import affine_pieces


def perturbed(land: Landscape, parents: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Points moved by all lengths, in some coordinates or along first-layer units."""
    count, d = parents.shape
    step = 10.0 ** rng.uniform(-2.5, 0.0, (count, 1))
    mask = rng.random((count, d)) < 10.0 ** rng.uniform(-1.0, 0.0, (count, 1))
    far = np.maximum(1.0, np.abs(parents))
    scale = np.where(np.isfinite(land.width), land.width, far)
    noise = mask * rng.standard_normal((count, d))
    first = land.problem.network.layers[0]
    if d > first.units:
        noise[count // 4 :] = _steered(first.weight, count - count // 4, rng)
    return np.asarray(parents + step * scale * noise)


def _steered(weight: Matrix, count: int, rng: np.random.Generator) -> FloatArray:
    """Directions that move a few first-layer pre-activations as far as the box allows.

    With many more inputs than units, independent noise hardly moves a pre-activation: the sign
    vector of a combination of weight rows moves it most.
    """
    units = weight.shape[0]
    chosen = rng.random((count, units)) < 10.0 ** rng.uniform(-1.5, 0.0, (count, 1))
    chosen[np.arange(count), rng.integers(0, units, count)] = True
    moves = np.asarray((chosen * rng.standard_normal((count, units))) @ weight)
    return np.asarray(np.sign(moves))


def crossings(land: Landscape, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Points straight across the nearest kinks and a bit beyond, as many as children."""
    network, steps = land.problem.network, [np.zeros((0, x.size))]
    pieces = affine_pieces(network, network.pattern(x))
    scale = np.where(np.isfinite(land.width), land.width, 1.0)
    scale = scale / scale.max()  # straight, and near, in shares of the domain's widths
    for layer, (gain, offset) in zip(network.hidden, pieces, strict=False):
        z, gain = gain @ x + offset, gain * scale
        size = np.square(gain).sum(axis=1)
        use = layer.kinked & (size > 0)
        steps.append(-(z[use] / size[use])[:, None] * gain[use])
    straight = np.vstack(steps)
    if len(straight) > land.children:
        near = np.argsort(np.abs(straight).max(axis=1), kind="stable")
        straight = straight[near[: land.children]]
    straight *= scale
    beyond = 1.0 + 10.0 ** rng.uniform(-4.0, 0.0, (len(straight), 1))
    parents = np.broadcast_to(x, straight.shape)
    return pulled_inside(land.problem.domain, x + beyond * straight, parents)


def towards(
    known: GoodPoints, parents: FloatArray, low: float, high: float, rng: np.random.Generator
) -> FloatArray:
    """Ways from parents to points of an archive, of shares between `low` and `high`."""
    mates = known.points[rng.integers(0, len(known.points), len(parents))]
    return np.asarray(rng.uniform(low, high, (len(parents), 1)) * (mates - parents))
