"""Optimisation-based bound tightening over the triangle relaxation: the third rung.

Each open pre-activation is minimised and maximised by a linear program whose variables are the
inputs and the outputs of the open units before it; decided units are substituted, so that no
equations are needed.  The LP bounds are recomputed from row duals (`LinearProgram`), and every
row is loosened by the rounding error of its own coefficients.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.bounds.interval import activated
from lipyomo.bounds.layers import LayerBounds
from lipyomo.bounds.relax import unit_lines
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.numerics.lp import LinearProgram
from lipyomo.numerics.rounding import gamma
from lipyomo.phases import LEFT, OPEN, RIGHT, decide


@dataclass
class Relaxation:
    """Rows and variables of the triangle relaxation, growing layer by layer.

    Attributes
    ----------
    lower, upper : ndarray, shape (w,)
        Bounds of the variables: inputs, then outputs of open units.
    blocks : list of (sparse array, ndarray)
        Rows ``A w <= b``; blocks may be narrower than w.
    gain : ndarray, shape (n, w); offset : ndarray, shape (n,)
        The current signal as an affine function of the variables.
    reach : ndarray, shape (n,)
        Sum of the absolute terms of that function through all layers, for rounding errors.
    terms : int
        Length of the longest sum so far.
    """

    lower: FloatArray
    upper: FloatArray
    blocks: list[tuple[sp.csr_array, FloatArray]]
    gain: FloatArray
    offset: FloatArray
    reach: FloatArray
    terms: int

    @classmethod
    def start(cls, domain: Domain) -> Relaxation:
        """The inputs only."""
        rows = domain.rows
        reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        blocks = [(rows.A, rows.b)] if rows.count else []
        d = domain.dimension
        return cls(domain.lower, domain.upper, blocks, np.eye(d), np.zeros(d), reach, d)

    def affine(self, layer: Layer) -> FloatArray:
        """Move the signal through the affine map; returns the rounding errors, shape (n,)."""
        self.gain = np.asarray(layer.weight @ self.gain)
        self.offset = np.asarray(layer.weight @ self.offset) + layer.bias
        self.reach = np.asarray(abs(layer.weight) @ self.reach) + np.abs(layer.bias)
        self.terms += layer.inputs + self.gain.shape[1]
        return np.asarray(gamma(self.terms) * self.reach)

    def program(self) -> LinearProgram:
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

    def constrain(self, rows: BoolArray, sign: float, error: FloatArray) -> None:
        """Ask that ``sign * signal >= 0`` for the chosen units."""
        if rows.any():
            block = sp.csr_array(-sign * self.gain[rows])
            self.blocks.append((block, sign * self.offset[rows] + error[rows]))

    def activate(
        self,
        layer: Layer,
        open_: BoolArray,
        low: FloatArray,
        high: FloatArray,
        error: FloatArray,
        outputs: tuple[FloatArray, FloatArray],
    ) -> None:
        """Move the signal through the units: substitute decided ones, add variables for open ones.

        Parameters
        ----------
        layer : Layer
        open_ : ndarray of bool, shape (n,)
        low, high : ndarray, shape (n,)
            Pre-activation bounds.
        error : ndarray, shape (n,)
            Rounding error of the affine functions.
        outputs : (ndarray, ndarray), shapes (n,)
            Range of the units' outputs.
        """
        pick = np.flatnonzero(open_)
        old, new = self.gain.shape[1], pick.size
        slope = np.where(low >= 0, layer.right, layer.left)
        gain = np.hstack([slope[:, None] * self.gain, np.zeros((slope.size, new))])
        if new:
            left, right = layer.left[pick], layer.right[pick]
            lines = unit_lines(low[pick], high[pick], left, right)
            convex = right >= left
            other = np.where(lines.lower_slope == right, left, right)
            other = np.where(convex, other, np.where(lines.upper_slope == right, left, right))
            eye = sp.eye_array(new, format="csr")
            for slopes, offsets, sign in (
                (lines.upper_slope, lines.upper_offset, 1.0),
                (lines.lower_slope, lines.lower_offset, -1.0),
            ):
                self._line(pick, slopes, offsets, sign, error, eye)
            zero = np.zeros(new)
            for sign, mask in ((-1.0, convex), (1.0, ~convex)):
                if mask.any():
                    self._line(pick[mask], other[mask], zero[mask], sign, error, eye[mask])
            gain[pick] = 0.0
            gain[pick, old + np.arange(new)] = 1.0
            self.lower = np.concatenate([self.lower, outputs[0][pick]])
            self.upper = np.concatenate([self.upper, outputs[1][pick]])
        self.gain = gain
        self.offset = np.where(open_, 0.0, slope * self.offset)
        size = np.maximum(np.abs(outputs[0]), np.abs(outputs[1]))
        self.reach = np.where(open_, size, np.abs(slope) * self.reach)

    def _line(
        self,
        pick: npt.NDArray[np.intp],
        slopes: FloatArray,
        offsets: FloatArray,
        sign: float,
        error: FloatArray,
        eye: sp.csr_array,
    ) -> None:
        """Ask that ``sign * output <= sign * (slope * signal + offset)`` for the units `pick`."""
        body = sp.hstack([sp.csr_array(-slopes[:, None] * self.gain[pick]), eye])
        right = sign * (slopes * self.offset[pick] + offsets)
        slack = np.abs(slopes) * error[pick] + gamma(4) * np.abs(offsets)
        self.blocks.append((sp.csr_array(sign * body), right + slack))


def tighten(network: Network, domain: Domain, bounds: LayerBounds, deadline: float) -> LayerBounds:
    """Tighten pre-activation bounds by linear programs.

    Parameters
    ----------
    network : Network
    domain : Domain
        Its bounding box and rows are used; curved domains are seen as their bounding box.
    bounds : LayerBounds
        Those of the rung below.
    deadline : float
        In `time.monotonic` seconds; units that are not reached keep their bounds.

    Returns
    -------
    LayerBounds
    """
    lower = [low.copy() for low in bounds.lower]
    upper = [high.copy() for high in bounds.upper]
    phases = list(bounds.phases)
    relaxation = Relaxation.start(domain)
    for k, layer in enumerate(network.hidden):
        error = relaxation.affine(layer)
        open_ = layer.kinked & (phases[k] == OPEN)
        if k > 0 or relaxation.blocks:
            _optimise(relaxation, open_, lower[k], upper[k], error, deadline)
        if (lower[k] > upper[k]).any():
            return replace(bounds, empty=True)
        phases[k] = decide((phases[k],), [lower[k]], [upper[k]])[0]
        if time.monotonic() > deadline:
            break
        open_ = layer.kinked & (phases[k] == OPEN)
        if not np.isfinite(lower[k][open_]).all() or not np.isfinite(upper[k][open_]).all():
            break
        kinked = layer.kinked
        relaxation.constrain(kinked & (phases[k] == RIGHT) & (lower[k] == 0), 1.0, error)
        relaxation.constrain(kinked & (phases[k] == LEFT) & (upper[k] == 0), -1.0, error)
        outputs = activated(layer, phases[k][None], lower[k][None], upper[k][None])
        relaxation.activate(layer, open_, lower[k], upper[k], error, (outputs[0][0], outputs[1][0]))
    return replace(bounds, lower=lower, upper=upper, phases=tuple(phases))


def _optimise(
    relaxation: Relaxation,
    open_: BoolArray,
    low: FloatArray,
    high: FloatArray,
    error: FloatArray,
    deadline: float,
) -> None:
    """Improve `low` and `high` in place for the open units, the side nearer to zero first."""
    program = relaxation.program()
    for j in np.flatnonzero(open_):
        order = (1.0, -1.0) if high[j] < -low[j] else (-1.0, 1.0)
        for sign in order:
            if time.monotonic() > deadline:
                return
            if low[j] >= 0 or high[j] <= 0:
                break
            bound = program.maximise(sign * relaxation.gain[j]).bound
            if not np.isfinite(bound):
                continue
            side = bound + sign * relaxation.offset[j] + error[j]
            side += gamma(2) * abs(side)
            if sign > 0:
                high[j] = min(high[j], side)
            else:
                low[j] = max(low[j], -side)
