"""The ladder of pre-activation bounds: interval, then linear, then LP.

Given phases constrain (a unit said to be on has z >= 0) and linearise (its output is exactly its
slope times z).  What they and the bounds decide comes back as phases.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.bounds.chain import Chain, Index
from lipyomo.bounds.interval import (
    PhaseBatch,
    Slab,
    activated,
    cut,
    forced,
    interval_range,
    slope_pair,
)
from lipyomo.bounds.layers import LayerBounds
from lipyomo.bounds.lp import tighten
from lipyomo.bounds.parts import Range
from lipyomo.bounds.relax import unit_lines
from lipyomo.domains import Domain
from lipyomo.network import FloatArray, Matrix, Network
from lipyomo.numerics.rounding import gamma
from lipyomo.phases import Phases, decide, open_phases
from lipyomo.settings import BoundRung

LP_UNITS = 150
"""Most open units for which the rung ``auto`` climbs to linear programs."""

AUTO_SECONDS = 2.0
"""Time that the rung ``auto`` may spend on linear programs when no limit is given."""


def preactivation_bounds(
    network: Network,
    domain: Domain,
    phases: Phases | None = None,
    rung: BoundRung = "linear",
    time_limit: float | None = None,
    stop: Callable[[], bool] | None = None,
) -> LayerBounds:
    """Bounds of every hidden pre-activation over a domain, for a partial pattern.

    Parameters
    ----------
    network : Network
    domain : Domain
        Bounded or not; what is unbounded gets infinite bounds.
    phases : Phases, optional
        Partial pattern; all units are open by default.
    rung : {'linear', 'interval', 'lp', 'auto'}, optional
        Highest rung of the ladder; each rung starts from the one below.  ``auto`` climbs to ``lp``
        on small networks.
    time_limit : float, optional
        Seconds for the LP rung; what is not tightened by then keeps its linear bounds.
    stop : callable, optional
        Polled between steps; once True, the remaining bounds are those of intervals.

    Returns
    -------
    LayerBounds
    """
    start = open_phases(network) if phases is None else phases
    box = (domain.lower[None, :], domain.upper[None, :])
    linear = rung != "interval"
    slabs = _climb(network, *box, [layer[None, :] for layer in start], linear, domain, stop)
    lower = [slab.lower[0] for slab in slabs]
    upper = [slab.upper[0] for slab in slabs]
    used = "linear" if linear and domain.is_bounded and len(slabs) > 1 else "interval"
    found = LayerBounds(
        lower, upper, used, decide(start, lower, upper), any(slab.empty[0] for slab in slabs)
    )
    climb = rung == "lp" or (rung == "auto" and 0 < found.unstable <= LP_UNITS)
    if not climb or found.empty or not domain.is_bounded:
        return found
    limit = time_limit
    if limit is None:
        limit = math.inf if rung == "lp" else AUTO_SECONDS
    return replace(tighten(network, domain, found, time.monotonic() + limit), rung="lp")


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes (B, d) as arguments of a chain."""

    lower: FloatArray
    upper: FloatArray

    @property
    def batch(self) -> int:
        """Number of boxes."""
        return len(self.lower)

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest values of functionals (B, r, d), shape (B, r)."""
        return box_support(rows, self.lower, self.upper)

    def reach(self, rows: Matrix) -> FloatArray:
        """Largest sums of absolute terms of rows (r, d), over the bounded inputs, shape (B, r)."""
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        size = np.where(np.isfinite(size), size, 0.0)
        return np.asarray((abs(rows) @ size.T).T)


@dataclass(frozen=True, eq=False)
class Inside(Boxes):
    """A domain within its bounding box."""

    domain: Domain

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest values over the domain."""
        flat = rows.reshape(-1, rows.shape[-1])
        bound = self.domain.support(flat)
        size = np.maximum(np.abs(self.lower[0]), np.abs(self.upper[0]))
        size = np.where(np.isfinite(size), size, 0.0)
        bound = bound + gamma(flat.shape[1]) * (np.abs(flat) @ size + np.abs(bound))
        return bound.reshape(rows.shape[:-1])


def _climb(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    phases: Sequence[PhaseBatch],
    linear: bool,
    domain: Domain | None,
    stop: Callable[[], bool] | None = None,
) -> list[Slab]:
    """Interval and linear bounds, layer by layer; the linear ones only for units still open."""
    box = Boxes(lower, upper)
    inner = None
    if domain is not None and not domain.is_box:
        inner = Inside(lower, upper, domain)
    linear = linear and bool(np.isfinite(lower).all() and np.isfinite(upper).all())
    chain = Chain(box, stop)
    slabs: list[Slab] = []
    low, high = lower, upper
    for position, (layer, given) in enumerate(zip(network.hidden, phases, strict=True)):
        found = interval_range(layer, low, high)
        still = np.flatnonzero(((found.lower < 0) & (found.upper > 0)).any(axis=0))
        if linear or position == 0:
            chain.affine(layer.weight, layer.bias)
            if still.size and (chain.members or chain.composed):
                found = _intersected(found, still, chain.range(still))
                still = np.flatnonzero(((found.lower < 0) & (found.upper > 0)).any(axis=0))
            if inner is not None and still.size:
                found = _intersected(found, still, chain.range(still, inner))
        sides = forced(layer, given)
        slab = cut(found, sides)
        slabs.append(slab)
        low, high = activated(layer, sides, slab)
        if linear:
            left, right = slope_pair(layer, sides, slab.lower, slab.upper)
            shared = (left == right).all(axis=0) & (left == left[:1]).all(axis=0)
            pick = np.flatnonzero(~shared)
            lines = unit_lines(
                slab.lower[:, pick], slab.upper[:, pick], left[:, pick], right[:, pick]
            )
            size = np.maximum(np.abs(low), np.abs(high))[:, pick]
            chain.activate(left[0], pick, lines, size)
    return slabs


def _intersected(found: Range, rows: Index, ends: tuple[FloatArray, FloatArray]) -> Range:
    """`found` with the ranges of some rows intersected with others."""
    low, high = found.lower.copy(), found.upper.copy()
    low[:, rows] = np.maximum(low[:, rows], ends[0])
    high[:, rows] = np.minimum(high[:, rows], ends[1])
    return Range(low, high, found.reach)


def box_support(rows: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Safe upper bounds of functionals (B, k, d) over boxes (B, d), shape (B, k)."""
    middle, radius = 0.5 * (lower + upper), 0.5 * (upper - lower)
    widened = radius + gamma(rows.shape[-1]) * np.maximum(np.abs(lower), np.abs(upper))
    return np.asarray((rows @ middle[:, :, None] + np.abs(rows) @ widened[:, :, None])[:, :, 0])
