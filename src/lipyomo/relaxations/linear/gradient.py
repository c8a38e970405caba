"""Upper bounds of the norm of a gradient, over all switches that a domain leaves open.

There are three bounds by the same relaxation; each can be the best one:

- by entry: every ``g_j`` is bounded, then the norm (FastLip with intervals, Weng et al., 2018;
  never looser with linear bounds);
- jointly: the norm is one more layer of units behind the gradient, with ``|g_j|`` or ``g_j^2``
  below its chord, and the *sum* is back-substituted at once, which is tighter than the sum of the
  bounds (Shi et al., Efficiently computing local Lipschitz constants, NeurIPS 2022, for linf);
- by tangents: the derivative of ``y . f`` in all directions of the unit ball, forwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Network
from lipyomo.networks.phases import Phases
from lipyomo.problems.norms import DUAL, InputNorm, vector_norm
from lipyomo.relaxations.linear.balls import Ball, InputBall, SingleFunctionals
from lipyomo.relaxations.linear.chain import AffineChain
from lipyomo.relaxations.linear.derivative import (
    DerivativeRelaxation,
    SwitchedBounds,
    Way,
    bounds_along_chain,
    refined,
)
from lipyomo.relaxations.linear.layers import PhaseBatch, by_layer
from lipyomo.relaxations.linear.relax import switch_lines


class GradientEnds(NamedTuple):
    """Upper bounds for the gradients of B functionals (or sets of them).

    Attributes
    ----------
    entries : ndarray, shape (B, d)
        Upper bounds of the absolute entries.
    norm : ndarray, shape (B,)
        Upper bounds of the gradient norms, dual to the input norm.
    """

    entries: FloatArray
    norm: FloatArray


def entry_norms(lower: FloatArray, upper: FloatArray, input_norm: InputNorm) -> FloatArray:
    """Bound gradient norms from above, shape (...), by bounds (..., d) of their entries."""
    size = np.maximum(np.abs(lower), np.abs(upper))
    norms = vector_norm(size, DUAL[input_norm])
    return np.asarray(norms * (1.0 + gamma(2 * size.shape[-1])))


def gradient_ends(
    network: Network,
    phases: Phases,
    functionals: Ball,
    input_norm: InputNorm,
    relaxation: DerivativeRelaxation = "linear",
    stop: Callable[[], bool] | None = None,
) -> GradientEnds:
    """Bound gradients by entry and, unless the relaxation is ``interval``, jointly.

    Parameters
    ----------
    network : Network
    phases : Phases
        One partial pattern, or one for each functional, shapes (B, n_i); open units may be on
        either slope.
    functionals : Ball
        Functionals of the outputs; `SingleFunctionals` to bound each one separately.
    input_norm : {'l1', 'l2', 'linf'}
    relaxation : {'linear', 'interval'}, optional
    stop : callable, optional
        Polled between steps; once True, the remaining bounds are interval bounds.

    Returns
    -------
    GradientEnds
    """
    way = Way.backwards(network, phases)
    found, low, high = _ends(way, functionals, relaxation, stop, norm_only=input_norm == "linf")
    norms = entry_norms(low, high, input_norm)
    if found.linear and way.switches:
        if input_norm == "linf":
            norms = np.minimum(norms, _sum_of_sizes(found.chain, low, high))
        elif input_norm == "l2":
            norms = np.minimum(norms, _sum_of_squares(found.chain, low, high))
    return GradientEnds(np.maximum(np.abs(low), np.abs(high)), norms)


def gradient_norms(
    network: Network, phases: PhaseBatch, functional: FloatArray, input_norm: InputNorm
) -> FloatArray:
    """Bound the norm of a functional's gradient from above under B partial patterns (B, N).

    The bounds, shape (B,), are those of `gradient_ends`: by entry and jointly.
    """
    return gradient_ends(network, *_each(network, phases, functional), input_norm).norm


def gradient_entries(
    network: Network, phases: PhaseBatch, functional: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the entries (B, d) of a functional's gradient under partial patterns (B, N)."""
    each, ball = _each(network, phases, functional)
    return _ends(Way.backwards(network, each), ball)[1:]


def _each(network: Network, phases: PhaseBatch, functional: FloatArray) -> tuple[Phases, Ball]:
    """Split B partial patterns into layers (B, n_i), and repeat a functional for each pattern."""
    each = tuple(by_layer(network.hidden, phases))
    return each, SingleFunctionals(np.repeat(functional[None], len(phases), axis=0))


def gradient_ranges(
    network: Network, phases: Phases, functionals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the entries of the gradients of functionals (k, m); two arrays of shape (k, d)."""
    way = Way.backwards(network, phases)
    return _ends(way, SingleFunctionals(functionals), norm_only=True)[1:]


def tangent_lengths(network: Network, phases: PhaseBatch, directions: FloatArray) -> FloatArray:
    """Bound ``|J v|_2`` from above, shape (B,), for a direction (B, d) under each of B patterns."""
    way = Way.forwards(network, tuple(by_layer(network.hidden, phases)))
    found, low, high = _ends(way, SingleFunctionals(directions))
    norms = entry_norms(low, high, "l2")
    if found.linear and way.switches:
        norms = np.minimum(norms, _sum_of_squares(found.chain, low, high))
    return norms


def _ends(
    way: Way,
    ball: Ball,
    relaxation: DerivativeRelaxation = "linear",
    stop: Callable[[], bool] | None = None,
    norm_only: bool = False,
) -> tuple[SwitchedBounds, FloatArray, FloatArray]:
    """Compute bounds along a product, and the ranges of its result.

    With `norm_only`, entries of a fixed sign keep their interval bounds: the joint bound of the sum
    of absolute values does not depend on them.
    """
    found = bounds_along_chain(way, ball, relaxation, sparing=True, stop=stop)
    low, high = found.lower[-1], found.upper[-1]
    if not (found.linear and way.switches):
        return found, low, high
    pick = np.arange(low.shape[1])
    if norm_only:
        pick = np.flatnonzero(((low < 0) & (high > 0)).any(axis=0))
    return found, *refined(found.chain, pick, low, high)


def _sum_of_sizes(chain: AffineChain, low: FloatArray, high: FloatArray) -> FloatArray:
    """Bound ``sum_j |g_j|`` from above for a chain that ends in g, shape (B,)."""
    lines = switch_lines(low, high, np.full(1, -1.0), np.ones(1))
    offset = lines.offsets[0].sum(axis=1) * (1.0 + gamma(low.shape[1]))
    found = chain.upper(chain.combined(lines.slopes[0]))[:, 0] + offset
    return np.asarray(found + gamma(2) * np.abs(found))


def _sum_of_squares(chain: AffineChain, low: FloatArray, high: FloatArray) -> FloatArray:
    """Bound ``|g|_2`` from above for a chain that ends in g, by ``g^2 <= (l + u) g - l u``."""
    slope = low + high
    size = np.maximum(np.abs(low), np.abs(high))
    offset = (-low * high + 4.0 * UNIT * np.square(size)).sum(axis=1)
    offset += gamma(low.shape[1]) * np.square(size).sum(axis=1)
    found = chain.upper(chain.combined(slope))[:, 0] + offset
    found = np.maximum(found + gamma(2) * (np.abs(found) + np.abs(offset)), 0.0)
    return np.asarray(np.sqrt(found) * (1.0 + gamma(2)))


def tangent_ends(
    network: Network,
    phases: Phases,
    functionals: FloatArray,
    input_norm: InputNorm,
    stop: Callable[[], bool] | None = None,
) -> FloatArray:
    """Bound the absolute derivatives of functionals (k, m) in all directions of the unit ball.

    Returned are upper bounds (k,) of the dual norms of their gradients.  The other parameters are
    those of `gradient_ends`.
    """
    way = Way.forwards(network, phases).then(functionals)
    _, low, high = _ends(way, InputBall(input_norm), stop=stop)
    return np.asarray(np.maximum(np.abs(low[0]), np.abs(high[0])))
