"""Upper bounds of the norm of a gradient, over all switches that a domain leaves open.

Three views of the same relaxation; each can be the best one:

- by entry: every ``g_j`` between its bounds, then the norm (FastLip with intervals, Weng et al.,
  2018; with linear bounds it is never looser);
- jointly: the norm is one more layer of units behind the gradient, ``|g_j|`` or ``g_j^2`` below
  its chord, and the *sum* is substituted back, so that the entries share their relaxation errors
  (Shi et al., Efficiently computing local Lipschitz constants, NeurIPS 2022, for linf);
- by tangents: the derivative of ``y . f`` in all directions of the unit ball, forwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class GradientEnds:
    """What is known of the gradients of B functionals (or sets of them).

    Attributes
    ----------
    entries : ndarray, shape (B, d)
        Largest absolute values.
    norm : ndarray, shape (B,)
        Upper bounds of the dual norm of the input norm.
    """

    entries: FloatArray
    norm: FloatArray


def entry_norms(lower: FloatArray, upper: FloatArray, input_norm: InputNorm) -> FloatArray:
    """Upper bounds of the gradients' norms, shape (...), from bounds (..., d) of their entries."""
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
    """Bounds by entry and, unless the relaxation is ``interval``, jointly.

    Parameters
    ----------
    network : Network
    phases : Phases
        Partial pattern, or one a functional, shapes (B, n_i); unstable units may be on either
        slope.
    functionals : Ball
        Of functionals of the outputs; `SingleFunctionals` for one a chain.
    input_norm : {'l1', 'l2', 'linf'}
    relaxation : {'linear', 'interval'}, optional
    stop : callable, optional
        Polled between steps; once True, what is not known yet is left to intervals.

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
    """Upper bounds (B,) of the norm of a functional's gradient under B partial patterns (B, N).

    By entry and jointly, as `gradient_ends`.
    """
    return gradient_ends(network, *_each(network, phases, functional), input_norm).norm


def gradient_entries(
    network: Network, phases: PhaseBatch, functional: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and largest entries (B, d) of a functional's gradient under partial patterns (B, N)."""
    each, ball = _each(network, phases, functional)
    return _ends(Way.backwards(network, each), ball)[1:]


def _each(network: Network, phases: PhaseBatch, functional: FloatArray) -> tuple[Phases, Ball]:
    """B partial patterns layer by layer, shapes (B, n_i), and one functional for all of them."""
    each = tuple(by_layer(network.hidden, phases))
    return each, SingleFunctionals(np.repeat(functional[None], len(phases), axis=0))


def gradient_ranges(
    network: Network, phases: Phases, functionals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and largest entries of the gradients of functionals (k, m), shapes (k, d)."""
    way = Way.backwards(network, phases)
    return _ends(way, SingleFunctionals(functionals), norm_only=True)[1:]


def tangent_lengths(network: Network, phases: PhaseBatch, directions: FloatArray) -> FloatArray:
    """Upper bounds (B,) of ``|J v|_2`` for a direction (B, d) under each of B partial patterns."""
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
    """Bounds along a way, and the ranges of its end.

    With `norm_only`, entries that keep their sign may have wide ones: a sum of absolute values does
    not need them.
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
    """Upper bounds of ``sum_j |g_j|`` for a chain that ends in g, shape (B,)."""
    lines = switch_lines(low, high, np.full(1, -1.0), np.ones(1))
    offset = lines.offsets[0].sum(axis=1) * (1.0 + gamma(low.shape[1]))
    found = chain.upper(chain.combined(lines.slopes[0]))[:, 0] + offset
    return np.asarray(found + gamma(2) * np.abs(found))


def _sum_of_squares(chain: AffineChain, low: FloatArray, high: FloatArray) -> FloatArray:
    """Upper bounds of ``|g|_2`` for a chain that ends in g, by ``g^2 <= (l + u) g - l u``."""
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
    """Largest absolute derivatives of functionals in all directions of the unit ball.

    Parameters are those of `gradient_ends`, with rows (k, m) as functionals; returned are upper
    bounds (k,) of the dual norms of their gradients.
    """
    way = Way.forwards(network, phases).then(functionals)
    _, low, high = _ends(way, InputBall(input_norm), stop=stop)
    return np.asarray(np.maximum(np.abs(low[0]), np.abs(high[0])))
