"""The semidefinite bound with slope ranges: for wide networks, coarse boxes, and all of R^d.

If sigma'(z) of every unit lies in [a, b], the Jacobian is a convex combination of those of the
patterns of a network with the two slopes a and b.  Its norm is convex in each slope, so a bound of
that network over all of its patterns is valid (`lipyomo.relaxations.linear.layers`).  In the
semidefinite bound, t = sigma'(z) u satisfies ``(t - a u)(b u - t) >= 0`` instead of an equation;
its multipliers are the diagonal of a positive definite matrix, so they have the right sign.
Pre-activations are ignored: biases are zero and the domain is R^d.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import flat, open_phases
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.domains import AllSpace
from lipyomo.relaxations.semidefinite.chain_root import (
    ChainBounds,
    chain_bounds,
    exact_tangents,
)
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed

Slopes = list[tuple[FloatArray, FloatArray]]
"""Least and largest slope of the units of each hidden layer."""


def global_slopes(context: BoxContext) -> Slopes:
    """Ranges of slopes over all of R."""
    layers = context.question.problem.network.hidden
    return [(np.minimum(v.left, v.right), np.maximum(v.left, v.right)) for v in layers]


def slopes_on(layers: Sequence[Relaxed]) -> Slopes:
    """Ranges of slopes on the first of some boxes."""
    return [
        (layer.rate[0] - layer.rate_radius[0], layer.rate[0] + layer.rate_radius[0])
        for layer in layers
    ]


def semidefinite_root(
    context: BoxContext, slopes: Slopes, known: FloatArray | None = None
) -> RootBounds | ChainBounds:
    """Prepare the bounds of all targets given the ranges of slopes, without computing them yet.

    Every step gives a valid bound.  They are computed layer by layer if that is much cheaper than
    with one matrix.

    Parameters
    ----------
    context : BoxContext
        Without explicit products.
    slopes : list of (ndarray, ndarray)
    known : ndarray, shape (T,), optional
        Initial bounds.
    """
    problem, d = context.question.problem, context.inputs
    network = problem.network
    hidden = [
        Layer(
            layer.weight, np.zeros(layer.units), np.nextafter(a, -np.inf), np.nextafter(b, np.inf)
        )
        for layer, (a, b) in zip(network.hidden, slopes, strict=True)
    ]
    head = Layer(network.head.weight, np.zeros(network.output_dim))
    between = Network([*hidden, head])
    along, norm, phases = problem.directions, problem.output_norm, open_phases(between)
    start = _crude(context, slopes) if known is None else known
    tangents = exact_tangents(between, along)
    chain = chain_bounds(tangents, norm, phases, context.targets, start)
    if chain is not None:
        return chain
    system = UnitSystem(between, context.targets.functionals, AllSpace(d), directions=along)
    return RootBounds.of(system, context.targets, flat(phases), start, norm)


def _crude(context: BoxContext, slopes: Slopes) -> FloatArray:
    """Bound all targets by products of absolute values, shape (T,)."""
    sizes = np.abs(context.rows) + context.row_errors
    for stage, (a, b) in zip(reversed(context.stages), reversed(slopes), strict=True):
        sizes = (sizes * np.maximum(np.abs(a), np.abs(b))) @ stage.along_sizes
    return np.asarray(context.targets.interval(sizes[None] * (1.0 + context.unit))[0])
