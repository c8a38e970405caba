"""Adjoints and tangents by linear programs: the third rung for derivatives.

One relaxation joins the forward pass, the switches and a derivative pass.  With z in [l, u] the
pre-activation of an open unit, a in [0, 1] its switch and t in [t_, T] the derivative that arrives,

    l (1 - a) <= z <= u a,      s = a t:   t_ a <= s <= T a,   t - T (1 - a) <= s <= t - t_ (1 - a)

(seed paper LipMIP, eqs. 71-73).  Without the switches' link to the inputs the optimum is that of
the linear rung, whose two chords per unit are the convex hull of s in {0, t}; what these programs
add is which switches the domain allows together.  Fixing a switch gives the conditional bounds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from lipyomo.affine.signal import FloatSignal, Passing, RangedSignal
from lipyomo.bounds.balls import Ball, DualBall, Hull, InputBall, functional_set
from lipyomo.bounds.derivative import DerivativeBounds
from lipyomo.bounds.interval import activated
from lipyomo.bounds.layers import LayerBounds
from lipyomo.bounds.lp import Relaxation
from lipyomo.bounds.stack import Index
from lipyomo.domains import Domain
from lipyomo.network import FloatArray, Layer, Network
from lipyomo.norms import InputNorm, OutputNorm
from lipyomo.numerics.lp import LinearProgram
from lipyomo.numerics.rounding import UNIT
from lipyomo.phases import LEFT, OPEN

MAX_ENDS = 64
"""Most final derivatives that get linear programs of their own."""


@dataclass(frozen=True)
class GivenSwitch:
    """Bounds of what arrives at the units, given their switches.

    Attributes
    ----------
    on_lower, on_upper : list of ndarray, shapes (n_i,)
        If the unit is on its right-hand slope.
    off_lower, off_upper : list of ndarray, shapes (n_i,)
        If it is on its left-hand slope.
    """

    on_lower: list[FloatArray]
    on_upper: list[FloatArray]
    off_lower: list[FloatArray]
    off_upper: list[FloatArray]

    @classmethod
    def of(cls, bounds: DerivativeBounds) -> GivenSwitch:
        """The same bounds for both positions."""
        low, high = bounds.lower, bounds.upper
        return cls(
            [a.copy() for a in low],
            [a.copy() for a in high],
            [a.copy() for a in low],
            [a.copy() for a in high],
        )


class _Joint:
    """Variables (forward part, switches, start, products) and rows of the joint relaxation."""

    def __init__(
        self, network: Network, domain: Domain, bounds: LayerBounds, ball: Ball, start_size: int
    ) -> None:
        self.network, self.bounds = network, bounds
        self.open: list[Index] = [
            np.flatnonzero(layer.kinked & (phase == OPEN))
            for layer, phase in zip(network.hidden, bounds.phases, strict=True)
        ]
        count = sum(pick.size for pick in self.open)
        forward, couplings = _forward(network, domain, bounds, self.open)
        start, start_low, start_high, start_rows = _start(ball, start_size)
        width = forward.lower.size
        self.size = width + 2 * count + start_low.size
        offsets = np.cumsum([0, *(pick.size for pick in self.open)])
        self.switch = [width + np.arange(a, b) for a, b in pairwise(offsets)]
        self.product = [place + count + start_low.size for place in self.switch]
        begin = width + count
        first = np.zeros((start_size, self.size))
        first[:, begin : begin + start_low.size] = start[0]
        self.first = RangedSignal.of(FloatSignal(first, self.size, None), start[1])
        unbounded = np.full(count, np.inf)
        self.lower = np.concatenate([forward.lower, np.zeros(count), start_low, -unbounded])
        self.upper = np.concatenate([forward.upper, np.ones(count), start_high, unbounded])
        self.rows: list[sp.csr_array] = [self._wide(block, 0) for block, _ in forward.blocks]
        self.right: list[FloatArray] = [b for _, b in forward.blocks]
        if start_rows is not None:
            self.rows.append(self._wide(start_rows[0], begin))
            self.right.append(start_rows[1])
        for place, rows in zip(self.switch, couplings, strict=True):
            for body, factor, b in rows:
                wide = self._wide(sp.csr_array(body), 0) + sp.csr_array(
                    (factor, (np.arange(place.size), place)), shape=(place.size, self.size)
                )
                self.rows.append(sp.csr_array(wide))
                self.right.append(b)

    def _wide(self, block: sp.csr_array, column: int) -> sp.csr_array:
        """`block` with its first column at `column` of all variables."""
        entries = sp.coo_array(block)
        places = (entries.coords[0], entries.coords[1] + column)
        return sp.csr_array((entries.data, places), shape=(block.shape[0], self.size))

    def program(self) -> LinearProgram:
        """The linear program of the rows so far."""
        if not self.rows:
            return LinearProgram(self.lower, self.upper, sp.csr_array((0, self.size)), np.zeros(0))
        body = sp.csr_array(sp.vstack(self.rows))
        return LinearProgram(self.lower, self.upper, body, np.concatenate(self.right))

    def multiply(
        self, i: int, layer: Layer, stage: RangedSignal, given: GivenSwitch
    ) -> RangedSignal:
        """Write the products of layer `i`'s switches with what arrives; returns what leaves."""
        pick, switch, product = self.open[i], self.switch[i], self.product[i]
        on = np.stack([given.on_lower[i][pick], given.on_upper[i][pick]])
        off = np.stack([given.off_lower[i][pick], given.off_upper[i][pick]])
        eye, gain = np.arange(pick.size), np.asarray(stage.values.matrix)[pick]
        slack = stage.error[pick]
        # s <= T a, s >= t_ a;  s <= t - t_ (1 - a), s >= t - T (1 - a): t_, T are those given off.
        for sign, side in ((1.0, 1), (-1.0, 0)):
            body = np.zeros((pick.size, self.size))
            body[eye, product], body[eye, switch] = sign, -sign * on[side]
            self._add(body, np.zeros(pick.size))
            body = -sign * gain
            body[eye, product] += sign
            body[eye, switch] += -sign * off[1 - side]
            self._add(body, slack - sign * off[1 - side])
        self.lower[product] = np.minimum(on[0], 0.0)
        self.upper[product] = np.maximum(on[1], 0.0)
        slope = np.where(self.bounds.phases[i] == LEFT, layer.left, layer.right)
        slope[pick] = layer.left[pick]
        passing = Passing(slope, pick, product, layer.right[pick] - layer.left[pick])
        return stage.past(passing, np.abs(on).max(axis=0, initial=0.0))

    def _add(self, body: FloatArray, right: FloatArray) -> None:
        self.rows.append(sp.csr_array(body))
        self.right.append(right + 4.0 * UNIT * np.abs(right))


Coupling = tuple[FloatArray, FloatArray, FloatArray]
"""Rows ``body @ w + factor a <= right`` of one layer's open units."""


def _forward(
    network: Network, domain: Domain, bounds: LayerBounds, open_: Sequence[Index]
) -> tuple[Relaxation, list[list[Coupling]]]:
    """The triangle relaxation of the forward pass, and the rows that tie switches to it."""
    relaxation = Relaxation.start(domain, sum(pick.size for pick in open_))
    couplings: list[list[Coupling]] = []
    for layer, pick, phase, low, high in zip(
        network.hidden, open_, bounds.phases, bounds.lower, bounds.upper, strict=True
    ):
        error = relaxation.affine(layer)
        body, offset, slack = relaxation.gain[pick], relaxation.offset[pick], error[pick]
        u, l_ = high[pick], low[pick]
        room = slack + 4.0 * UNIT * (np.abs(offset) + np.abs(l_) + np.abs(u))
        couplings.append([(body, -u, -offset + room), (-body, -l_, offset - l_ + room)])
        mask = np.zeros(layer.units, dtype=bool)
        mask[pick] = True
        ends = activated(layer, phase[None], low[None], high[None])
        relaxation.activate(layer, mask, low, high, error, (ends[0][0], ends[1][0]))
        H = relaxation.gain[pick]
        Z = np.hstack([body, np.zeros((pick.size, H.shape[1] - body.shape[1]))])
        left, change = layer.left[pick], layer.right[pick] - layer.left[pick]
        sign, size = np.sign(change), np.abs(change)
        # r = sign (h - left z) / size is the product a z: r <= u a and r <= z - l (1 - a).
        product = sign[:, None] * (H - left[:, None] * Z)
        room = room * (2.0 + np.abs(left) + size)
        couplings[-1] += [
            (product, -size * u, sign * left * offset + room),
            (
                product - size[:, None] * Z,
                -size * l_,
                (sign * left + size) * offset - size * l_ + room,
            ),
        ]
    return relaxation, couplings


Start = tuple[
    tuple[FloatArray, FloatArray],
    FloatArray,
    FloatArray,
    "tuple[sp.csr_array, FloatArray] | None",
]


def _start(ball: Ball, size: int) -> Start:
    """A ball as a map of bounded variables: ((map, reach), lower, upper, rows)."""
    if isinstance(ball, InputBall) and ball.norm == "l1":
        eye = np.eye(size)
        row = sp.csr_array(np.ones((1, 2 * size)))
        split = np.hstack([eye, -eye]), np.ones(size)
        return split, np.zeros(2 * size), np.ones(2 * size), (row, np.ones(1))
    points: FloatArray | None = None
    if isinstance(ball, Hull):
        points = ball.points
    elif isinstance(ball, DualBall):
        vertices = ball.norm.vertices(size)
        if vertices is not None and len(vertices) <= 4 * size:
            points = np.vstack([vertices, -vertices])
    if points is None:
        radius = ball.support(np.eye(size))
        return (np.eye(size), radius), -radius, radius, None
    k = len(points)
    total = sp.csr_array(np.vstack([np.ones((1, k)), -np.ones((1, k))]))
    reach = np.abs(points).max(axis=0)
    return (points.T.copy(), reach), np.zeros(k), np.ones(k), (total, np.array([1.0, -1.0]))


def tighten_adjoints(
    network: Network,
    domain: Domain,
    bounds: LayerBounds,
    functionals: FloatArray | OutputNorm,
    found: DerivativeBounds,
    time_limit: float = np.inf,
) -> tuple[DerivativeBounds, GivenSwitch]:
    """Tighten adjoint bounds by linear programs.

    Parameters
    ----------
    network : Network
    domain : Domain
        Bounded; curved domains are seen as their bounding box.
    bounds : LayerBounds
        Of the pre-activations.
    functionals : ndarray (k, m) or OutputNorm
        As for `adjoint_bounds`.
    found : DerivativeBounds
        Of the rung below.
    time_limit : float, optional
        Seconds; what is not reached keeps its bounds.

    Returns
    -------
    DerivativeBounds, GivenSwitch
        In any case, and given each open unit's switch.
    """
    ball = functional_set(functionals, network.output_dim)
    return _tighten(network, domain, bounds, ball, found, time_limit, backwards=True)


def tighten_tangents(
    network: Network,
    domain: Domain,
    bounds: LayerBounds,
    input_norm: InputNorm,
    found: DerivativeBounds,
    time_limit: float = np.inf,
) -> tuple[DerivativeBounds, GivenSwitch]:
    """Tighten tangent bounds by linear programs; parameters as for `tighten_adjoints`."""
    ball = InputBall(input_norm)
    return _tighten(network, domain, bounds, ball, found, time_limit, backwards=False)


def _tighten(
    network: Network,
    domain: Domain,
    bounds: LayerBounds,
    ball: Ball,
    found: DerivativeBounds,
    time_limit: float,
    backwards: bool,
) -> tuple[DerivativeBounds, GivenSwitch]:
    """Run through the layers."""
    order, matrices = range(len(network.hidden)), [layer.weight for layer in network.layers]
    if backwards:
        order, matrices = order[::-1], [weight.T for weight in reversed(matrices)]
    lower, upper = [a.copy() for a in found.lower], [a.copy() for a in found.upper]
    given = GivenSwitch.of(replace(found, lower=lower, upper=upper))
    if not domain.is_bounded or bounds.empty:
        return found, given
    deadline = time.monotonic() + time_limit
    joint = _Joint(network, domain, bounds, ball, matrices[0].shape[1])
    stage = joint.first
    for position, i in enumerate(order):
        stage = stage.times(matrices[position])
        program = joint.program() if joint.open[i].size else None
        for unit, switch in zip(joint.open[i], joint.switch[i], strict=True):
            if program is None or time.monotonic() > deadline:
                break
            low, high = _range(program, stage, unit)
            lower[i][unit] = max(lower[i][unit], low)
            upper[i][unit] = min(upper[i][unit], high)
            for a, lows, highs in (
                (1.0, given.on_lower[i], given.on_upper[i]),
                (0.0, given.off_lower[i], given.off_upper[i]),
            ):
                program.set_bounds(int(switch), a, a)
                low, high = _range(program, stage, unit)
                lows[unit] = max(lows[unit], lower[i][unit], low)
                highs[unit] = min(highs[unit], upper[i][unit], high)
            program.set_bounds(int(switch), 0.0, 1.0)
        stage = joint.multiply(i, network.hidden[i], stage, given)
    ends = found.end_lower.copy(), found.end_upper.copy()
    stage = stage.times(matrices[-1])
    if len(ends[0]) <= MAX_ENDS:
        program = joint.program()
        for k in range(len(ends[0])):
            if time.monotonic() > deadline:
                break
            low, high = _range(program, stage, k)
            ends[0][k], ends[1][k] = max(ends[0][k], low), min(ends[1][k], high)
    tight = replace(
        found, lower=lower, upper=upper, end_lower=ends[0], end_upper=ends[1], rung="lp"
    )
    return tight, given


def _range(program: LinearProgram, stage: RangedSignal, k: int) -> tuple[float, float]:
    """Safe range of one row of a stage; infinite where the program gives none."""
    row, error = np.asarray(stage.values.matrix)[k], stage.error[k]
    ends = []
    for sign in (-1.0, 1.0):
        bound = program.maximise(sign * row).bound
        side = bound + error if np.isfinite(bound) else np.inf
        ends.append(sign * (side + 2.0 * UNIT * abs(side)))
    return ends[0], ends[1]
