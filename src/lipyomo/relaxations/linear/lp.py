"""Optimisation-based bound tightening over the triangle program.

Each open pre-activation is minimised and maximised by a linear program whose variables are the
inputs and the outputs of the unstable units before it; stable units are substituted out, so that
no equations are needed.  The LP bounds are recomputed from row duals (`LinearProgram`), and every
row is relaxed by the rounding error of its own coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, decide
from lipyomo.problems.affine.signal import FloatSignal, RangedSignal, UnitMap
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear.layers import LayerBounds
from lipyomo.relaxations.linear.relax import Triangle, activated


@dataclass(frozen=True, eq=False)
class TriangleProgram:
    """Rows and variables of the triangle relaxation; each layer yields an extended program.

    Attributes
    ----------
    lower, upper : ndarray, shape (w,)
        Bounds of the variables: inputs, then outputs of unstable units.
    blocks : tuple of (sparse array, ndarray)
        Rows ``A w <= b``; a block may lack the columns of later variables.
    signal : RangedSignal
        The current signal of the network, affine in the variables so far and those to come.
    """

    lower: FloatArray
    upper: FloatArray
    blocks: tuple[tuple[sp.csr_array, FloatArray], ...]
    signal: RangedSignal

    @classmethod
    def start(cls, domain: Domain, own: int) -> TriangleProgram:
        """Return the program of the inputs alone; at most `own` units will have variables."""
        rows = domain.rows
        reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        blocks = ((rows.A, rows.b),) if rows.count else ()
        signal = RangedSignal.of(FloatSignal.inputs(domain.dimension, own), reach)
        return cls(domain.lower, domain.upper, blocks, signal)

    @property
    def gain(self) -> FloatArray:
        """Coefficients of the signal in the variables so far, shape (n, w)."""
        return np.asarray(self.signal.values.matrix)[:, : self.lower.size]

    @property
    def offset(self) -> FloatArray:
        """Constants of the signal, shape (n,)."""
        return np.asarray(self.signal.values.matrix)[:, -1]

    def linear_program(self) -> LinearProgram:
        """The linear program of the rows so far."""
        w = self.lower.size
        if not self.blocks:
            return LinearProgram(self.lower, self.upper, sp.csr_array((0, w)), np.zeros(0))
        wide = []
        for matrix, _ in self.blocks:
            block = sp.csr_array(matrix)
            block.resize((block.shape[0], w))
            wide.append(block)
        right = np.concatenate([b for _, b in self.blocks])
        return LinearProgram(self.lower, self.upper, sp.csr_array(sp.vstack(wide)), right)

    def through(self, layer: Layer) -> TriangleProgram:
        """Return the program with its signal carried through a layer's affine map."""
        return replace(self, signal=self.signal.through(layer))

    def constrained(self, rows: BoolArray, sign: float) -> TriangleProgram:
        """Return the program with rows ``sign * signal >= 0`` for the chosen units added."""
        if not rows.any():
            return self
        block = sp.csr_array(-sign * self.gain[rows])
        limit = sign * self.offset[rows] + self.signal.error[rows]
        return replace(self, blocks=(*self.blocks, (block, limit)))

    def past(
        self,
        layer: Layer,
        open_: BoolArray,
        low: FloatArray,
        high: FloatArray,
        outputs: tuple[FloatArray, FloatArray],
    ) -> TriangleProgram:
        """Return the program with its signal past the units; open ones add variables and triangles.

        Parameters
        ----------
        layer : Layer
        open_ : ndarray of bool, shape (n,)
        low, high : ndarray, shape (n,)
            Pre-activation bounds.
        outputs : (ndarray, ndarray), shapes (n,)
            Ranges of the units' outputs.
        """
        pick = np.flatnonzero(open_)
        columns = self.lower.size + np.arange(pick.size)
        least, most = outputs[0][pick], outputs[1][pick]
        wide = replace(
            self,
            lower=np.concatenate([self.lower, least]),
            upper=np.concatenate([self.upper, most]),
        )
        blocks = self.blocks
        if pick.size:
            triangle = Triangle.of(low[pick], high[pick], layer.left[pick], layer.right[pick])
            blocks = (*blocks, *wide._triangles(layer, pick, columns, triangle))
        slope = np.where(open_, 0.0, np.where(low >= 0, layer.right, layer.left))
        unit_map = UnitMap(slope, pick, columns, np.ones(pick.size))
        signal = self.signal.past(unit_map, np.maximum(np.abs(least), np.abs(most)))
        return replace(wide, blocks=blocks, signal=signal)

    def _triangles(
        self, layer: Layer, pick: IntArray, columns: IntArray, triangle: Triangle
    ) -> Iterator[tuple[sp.csr_array, FloatArray]]:
        """Yield the rows of open units' triangles: one side of the chord, and of both slopes."""
        chord, offset, bend = triangle
        zero = np.zeros(pick.size)
        for slopes, offsets, sign in (
            (chord, offset, bend),
            (layer.left[pick], zero, -bend),
            (layer.right[pick], zero, -bend),
        ):
            body = -slopes[:, None] * self.gain[pick]
            body[np.arange(pick.size), columns] = 1.0
            limit = sign * (slopes * self.offset[pick] + offsets)
            slack = np.abs(slopes) * self.signal.error[pick] + gamma(4) * np.abs(offsets)
            yield sp.csr_array(sign[:, None] * body), limit + slack


def tighten_by_programs(
    network: Network, domain: Domain, bounds: LayerBounds, clock: Clock
) -> LayerBounds:
    """Tighten pre-activation bounds by linear programs.

    Parameters
    ----------
    network : Network
    domain : Domain
        Its bounding box and rows are used; a ball is replaced by its bounding box.
    bounds : LayerBounds
        Bounds of a coarser relaxation.
    clock : Clock
        Units that are not reached in time keep their bounds.

    Returns
    -------
    LayerBounds
    """
    lower, upper, phases = list(bounds.lower), list(bounds.upper), list(bounds.phases)
    program = TriangleProgram.start(domain, bounds.unstable)
    for k, layer in enumerate(network.hidden):
        program = program.through(layer)
        open_ = layer.kinked & (phases[k] == OPEN)
        if k > 0 or program.blocks:
            lower[k], upper[k] = _optimised(program, open_, lower[k], upper[k], clock)
        if (lower[k] > upper[k]).any():
            return bounds._replace(empty=True)
        phases[k] = decide((phases[k],), [lower[k]], [upper[k]])[0]
        if clock.expired:
            break
        open_ = layer.kinked & (phases[k] == OPEN)
        if not np.isfinite(lower[k][open_]).all() or not np.isfinite(upper[k][open_]).all():
            break
        kinked = layer.kinked
        program = program.constrained(kinked & (phases[k] == RIGHT) & (lower[k] == 0), 1.0)
        program = program.constrained(kinked & (phases[k] == LEFT) & (upper[k] == 0), -1.0)
        least, most = activated(layer, phases[k][None], lower[k][None], upper[k][None])
        program = program.past(layer, open_, lower[k], upper[k], (least[0], most[0]))
    return bounds._replace(lower=lower, upper=upper, phases=tuple(phases))


def _optimised(
    program: TriangleProgram,
    open_: BoolArray,
    low: FloatArray,
    high: FloatArray,
    clock: Clock,
) -> tuple[FloatArray, FloatArray]:
    """Tighten the bounds of open units while time is left, the side nearer to zero first."""
    low, high = low.copy(), high.copy()
    linear, error = program.linear_program(), program.signal.error
    for j in np.flatnonzero(open_):
        order = (1.0, -1.0) if high[j] < -low[j] else (-1.0, 1.0)
        for sign in order:
            if clock.expired:
                return low, high
            if low[j] >= 0 or high[j] <= 0:
                break
            bound = linear.maximise(sign * program.gain[j]).bound
            if not np.isfinite(bound):
                continue
            side = bound + sign * program.offset[j] + error[j]
            side += gamma(2) * abs(side)
            if sign > 0:
                high[j] = min(high[j], side)
            else:
                low[j] = max(low[j], -side)
    return low, high
