"""Bounds of adjoints and tangents: interval (FastLip, Weng et al., 2018) and linear.

The adjoint of layer i is the derivative of y . f with respect to that layer's outputs h_i; the
tangent is the derivative of its pre-activations z_i in a direction v:

    t_L = W_{L+1}^T y,   t_{i-1} = W_i^T (D_i t_i),   gradient = t_0     (seed paper LipMIP, eq. 13)
    u_1 = W_1 v,         u_{i+1} = W_{i+1} (D_i u_i)

D_i holds the slopes of the units.  An unstable unit turns t into left t or right t.  Stable units
are linear, and the linear relaxation multiplies the exact matrices through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.split import SplitMatrix, pull_back
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import Phases
from lipyomo.problems.norms import ONE_BY_ONE, InputNorm, OutputNorm
from lipyomo.relaxations.linear.balls import Ball, InputBall, functional_set
from lipyomo.relaxations.linear.chain import AffineChain
from lipyomo.relaxations.linear.layers import LayerBounds, PhaseBatch, parts_of
from lipyomo.relaxations.linear.relax import Switches, switch_lines

DerivativeRelaxation = Literal["interval", "linear"]


@dataclass(frozen=True, eq=False)
class ChainLimits:
    """Bounds of all adjoints or tangents, as `adjoint_limits` and `tangent_limits` return them.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair for each hidden layer, before multiplication by D_i: the adjoint of its outputs
        h_i, or the tangent of its pre-activations z_i.
    end_lower, end_upper : ndarray
        The gradient (d,) for adjoints, the derivative of the outputs (m,) for tangents.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    end_lower: FloatArray
    end_upper: FloatArray

    def check(self, layers: Sequence[Layer], end: int) -> None:
        """Raise `ProblemError` unless these are bounds for such layers and such an end."""
        sizes, units = [low.size for low in self.lower], [layer.units for layer in layers]
        if sizes != units or self.end_lower.size != end:
            raise ProblemError(
                f"limits: they are for layers of {sizes} units and {self.end_lower.size} ends, the "
                f"network has {units} and {end}"
            )


class Way(NamedTuple):
    """A product along a network, forwards or backwards: ``M_K S_{K-1} ... M_1 S_0 M_0``.

    Attributes
    ----------
    matrices : list of SplitMatrix
        K + 1 of them.
    switches : list of Switches
        K of them; S_i acts between M_i and M_{i+1}.
    """

    matrices: list[SplitMatrix]
    switches: list[Switches]

    @classmethod
    def forwards(cls, network: Network, phases: Phases) -> Way:
        """Return the product for tangents, under one or B partial patterns, (n_i,) or (B, n_i)."""
        switches = [
            Switches.of(layer, np.atleast_2d(phase))
            for layer, phase in zip(network.hidden, phases, strict=True)
        ]
        return cls([parts_of(layer).split for layer in network.layers], switches)

    @classmethod
    def backwards(cls, network: Network, phases: Phases) -> Way:
        """Return the product for adjoints."""
        way = cls.forwards(network, phases)
        matrices = [matrix.transposed for matrix in reversed(way.matrices)]
        return cls(matrices, way.switches[::-1])

    def then(self, matrix: FloatArray) -> Way:
        """Append a matrix, after switches that are identities."""
        ones = np.ones((1, matrix.shape[1]))
        switches = [*self.switches, Switches(ones, ones)]
        return Way([*self.matrices, SplitMatrix.of(matrix)], switches)


class SwitchedBounds(NamedTuple):
    """Bounds along a chain of matrices with switches in between, shapes (B, n_i).

    If `linear`, the signal of `chain` is the whole product: the relaxation was linear and was not
    stopped early.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    chain: AffineChain
    linear: bool = False


def bounds_along_chain(
    way: Way,
    ball: Ball,
    relaxation: DerivativeRelaxation,
    sparing: bool = False,
    stop: Callable[[], bool] | None = None,
) -> SwitchedBounds:
    """Bound ``M_0 a``, ``M_1 S_0 M_0 a``, ... for a in a ball and any switch positions.

    Parameters
    ----------
    way : Way
    ball : Ball
        The set of a.
    relaxation : {'interval', 'linear'}
    sparing : bool, optional
        Whether to back-substitute only for units with two slopes; the others, which need no lines,
        and the end of the chain keep their interval bounds.
    stop : callable, optional
        Polled between steps; once True, the remaining bounds are interval bounds.
    """
    chain = AffineChain(ball, stop)
    found = SwitchedBounds([], [], chain)
    down, up = np.zeros((2, 1, 0))
    linear = relaxation != "interval"
    for position, matrix in enumerate(way.matrices):
        if position and stop is not None and stop():
            linear = False
        pair = way.switches[position] if position < len(way.switches) else None
        if linear or position == 0:
            chain = chain.affine(matrix)
        if position == 0:
            low, high = chain.range(np.arange(matrix.full.shape[0]))
        else:
            low, high = matrix.range(down, up)
            if linear:
                pick = np.arange(low.shape[1])
                if sparing:
                    still = np.zeros(0) if pair is None else (pair.left != pair.right).any(axis=0)
                    pick = np.flatnonzero(still)
                low, high = refined(chain, pick, low, high)
        found.lower.append(low)
        found.upper.append(high)
        if pair is None:
            break
        down, up = pair.range(low, high)
        if linear:
            pick = pair.members
            sides = (array[:, pick] for array in (low, high, pair.left, pair.right))
            size = np.maximum(np.abs(down), np.abs(up))[:, pick]
            chain = chain.activate(pair.left[0], pick, switch_lines(*sides), size)
    return found._replace(chain=chain, linear=linear)


def refined(
    chain: AffineChain, pick: IntArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intersect bounds (B, n) of a chain's signal at `pick` with those of back-substitution."""
    if pick.size == 0:
        return low, high
    down, up = chain.range(pick)
    shape = (max(len(low), len(down)), low.shape[1])
    low, high = np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy()
    low[:, pick] = np.maximum(low[:, pick], down)
    high[:, pick] = np.minimum(high[:, pick], up)
    return low, high


def derivative_relaxation(relaxation: str) -> DerivativeRelaxation:
    """Return the relaxation of derivatives that goes with one of pre-activations."""
    return "interval" if relaxation == "interval" else "linear"


@with_one_blas_thread
def adjoint_limits(
    network: Network,
    known: LayerBounds,
    functionals: FloatArray | OutputNorm | Ball,
    relaxation: DerivativeRelaxation | None = None,
) -> ChainLimits:
    """Bound the adjoints of every hidden layer and the gradient.

    Parameters
    ----------
    network : Network
    known : LayerBounds
        Bounds of the pre-activations, such as ``m.net.layer_bounds`` of a `ReluNetworkBlock`; units
        that they leave open may be on either slope.
    functionals : ndarray, shape (k, m) or (m,), OutputNorm or Ball
        The functional lies in the hull of these rows, in the dual ball of that norm, or in that
        set.
    relaxation : {'linear', 'interval'}, optional
        By default the one that the pre-activation bounds were found with.
    """
    way = Way.backwards(network, known.phases)
    ball = functional_set(functionals, network.output_dim)
    found = bounds_along_chain(way, ball, relaxation or derivative_relaxation(known.relaxation))
    lower, upper = ([ends[0] for ends in side] for side in (found.lower, found.upper))
    return ChainLimits(lower[-2::-1], upper[-2::-1], lower[-1], upper[-1])


@with_one_blas_thread
def tangent_limits(
    network: Network,
    known: LayerBounds,
    norm: InputNorm,
    factor: float = 1.0,
    relaxation: DerivativeRelaxation | None = None,
) -> ChainLimits:
    """Bound the tangents for all directions of length at most `factor` in `norm`.

    The other parameters are those of `adjoint_limits`.
    """
    way, ball = Way.forwards(network, known.phases), InputBall(norm)
    found = bounds_along_chain(way, ball, relaxation or derivative_relaxation(known.relaxation))
    lower, upper = ([factor * ends[0] for ends in side] for side in (found.lower, found.upper))
    return ChainLimits(lower[:-1], upper[:-1], lower[-1], upper[-1])


def hull_of_functionals(norm: OutputNorm, m: int) -> FloatArray | OutputNorm:
    """Return functionals that determine a norm: few vertices, one of each pair +-y, or the norm."""
    vertices = norm.vertices(m)
    if vertices is None or len(vertices) > ONE_BY_ONE:
        return norm
    if norm.kind in ("l1", "linf") or len(vertices) == 1:
        return vertices
    return norm if norm.kind == "cross" else np.asarray(vertices)


def gradient_sizes(
    layers: Sequence[Layer],
    phases: PhaseBatch,
    low: FloatArray,
    high: FloatArray,
    rough: Sequence[FloatArray] | None = None,
) -> FloatArray:
    """Bound the absolute entries of gradients under a batch of partial patterns, by intervals.

    Parameters
    ----------
    layers : sequence of Layer
        The hidden layers.
    phases : ndarray of int8, shape (B, N)
    low, high : ndarray, shape (k, n_L)
        Bounds of the adjoints of the last hidden layer's outputs.
    rough : sequence of ndarray, optional
        Error bounds of the entries of the weights, layer by layer.

    Returns
    -------
    ndarray, shape (B, k, d)
    """
    end = phases.shape[1]
    every = np.zeros((len(phases), 1, 1))
    low, high = low + every, high + every
    for i in range(len(layers) - 1, -1, -1):
        layer = layers[i]
        here, end = phases[:, None, end - layer.units : end], end - layer.units
        down, up = Switches.of(layer, here).range(low, high)
        low, high = parts_of(layer).split.transposed.range(down, up)
        if rough is not None:
            room = pull_back(np.maximum(np.abs(down), np.abs(up)), rough[i])
            low, high = low - room, high + room
    return np.maximum(np.abs(low), np.abs(high))
