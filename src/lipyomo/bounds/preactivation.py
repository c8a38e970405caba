"""The ladder of pre-activation bounds: interval, then linear, then LP.

Given phases constrain (a unit said to be on has z >= 0) and linearise (its output is exactly its
slope times z).  What they and the bounds decide comes back as phases.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.bounds.interval import (
    PhaseBatch,
    Slab,
    activated,
    cut,
    forced,
    interval_range,
    slope_pair,
)
from lipyomo.bounds.linear import Link, back_substitute
from lipyomo.bounds.parts import Range, parts_of
from lipyomo.bounds.relax import unit_lines
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray, Layer, Network
from lipyomo.numerics.rounding import gamma
from lipyomo.phases import Phases, count_open, decide, open_phases
from lipyomo.settings import BoundRung

LP_UNITS = 150
"""Most open units for which the rung ``auto`` climbs to linear programs."""

AUTO_SECONDS = 2.0
"""Time that the rung ``auto`` may spend on linear programs when no limit is given."""


@dataclass(frozen=True)
class LayerBounds:
    """Bounds of all pre-activations.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair a hidden layer; infinite where nothing is known.
    rung : str
        Highest rung that was used: interval, linear or lp.
    phases : tuple of int8 arrays
        The given phases with every unit closed that the bounds decide.
    empty : bool
        Whether the given phases contradict the bounds: no point of the domain has them.  The
        bounds mean nothing then.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    rung: str
    phases: Phases
    empty: bool = False

    @property
    def unstable(self) -> int:
        """Number of units that stayed open."""
        return count_open(self.phases)


def preactivation_bounds(
    network: Network,
    domain: Domain,
    phases: Phases | None = None,
    rung: BoundRung = "linear",
    time_limit: float | None = None,
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

    Returns
    -------
    LayerBounds
    """
    start = open_phases(network) if phases is None else phases
    box = (domain.lower[None, :], domain.upper[None, :])
    linear = rung != "interval"
    slabs = _climb(network, *box, [layer[None, :] for layer in start], linear, domain)
    lower = [slab.lower[0] for slab in slabs]
    upper = [slab.upper[0] for slab in slabs]
    used = "linear" if linear and domain.is_bounded and len(slabs) > 1 else "interval"
    found = LayerBounds(
        lower, upper, used, decide(start, lower, upper), any(slab.empty[0] for slab in slabs)
    )
    climb = rung == "lp" or (rung == "auto" and 0 < found.unstable <= LP_UNITS)
    if not climb or found.empty or not domain.is_bounded:
        return found
    from lipyomo.bounds.lp import tighten

    limit = time_limit
    if limit is None:
        limit = math.inf if rung == "lp" else AUTO_SECONDS
    return replace(tighten(network, domain, found, time.monotonic() + limit), rung="lp")


def batched_preactivation_bounds(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    phases: Sequence[PhaseBatch] | None = None,
    linear: bool = True,
) -> tuple[list[FloatArray], list[FloatArray], BoolArray]:
    """Pre-activation bounds over many boxes at once.

    Parameters
    ----------
    network : Network
    lower, upper : ndarray, shape (B, d)
        The boxes.
    phases : sequence of int8 arrays, shapes (B, n_i), optional
        Partial pattern of each box; all units are open by default.
    linear : bool, optional
        Whether to go beyond interval arithmetic.

    Returns
    -------
    lower, upper : list of ndarray, shapes (B, n_i)
    empty : ndarray of bool, shape (B,)
        Boxes whose phases contradict their bounds.
    """
    batch = len(lower)
    if phases is None:
        phases = [np.broadcast_to(p, (batch, p.size)) for p in open_phases(network)]
    slabs = _climb(network, lower, upper, phases, linear, None)
    empty = np.zeros(batch, dtype=bool)
    for slab in slabs:
        empty |= slab.empty
    return [slab.lower for slab in slabs], [slab.upper for slab in slabs], empty


def _climb(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    phases: Sequence[PhaseBatch],
    linear: bool,
    domain: Domain | None,
) -> list[Slab]:
    """Interval and linear bounds, layer by layer; the linear ones only for units still open."""
    curved = domain is not None and not (domain.is_polyhedral and domain.rows.count == 0)
    inner = domain if curved else None
    linear = linear and bool(np.isfinite(lower).all() and np.isfinite(upper).all())
    links: list[Link] = []
    slabs: list[Slab] = []
    low, high = lower, upper
    for position, (layer, given) in enumerate(zip(network.hidden, phases, strict=True)):
        found = interval_range(layer, low, high)
        if (linear and position > 0) or (inner is not None and position == 0):
            found = _refined(layer, links, found, lower, upper, inner)
        sides = forced(layer, given)
        slab = cut(found, sides)
        slabs.append(slab)
        low, high = activated(layer, sides, slab)
        if linear:
            pair = slope_pair(layer, sides, slab.lower, slab.upper)
            links.append(
                Link(
                    parts_of(layer).split,
                    layer.bias,
                    unit_lines(slab.lower, slab.upper, *pair),
                    slab.reach,
                )
            )
    return slabs


def _refined(
    layer: Layer,
    links: Sequence[Link],
    found: Range,
    lower: FloatArray,
    upper: FloatArray,
    inner: Domain | None,
) -> Range:
    """`found`, improved by back-substitution where a unit's sign is open in some batch entry."""
    rows = np.flatnonzero(((found.lower < 0) & (found.upper > 0)).any(axis=0))
    if rows.size == 0:
        return found
    weight = layer.weight[rows]
    dense = weight if isinstance(weight, np.ndarray) else weight.toarray()
    functionals = np.broadcast_to(
        np.vstack([dense, -dense]), (len(lower), 2 * rows.size, layer.inputs)
    )
    left_over, offset = back_substitute(functionals, links)
    if links:
        bound = box_support(left_over, lower, upper) + offset
    else:
        bound = np.full(offset.shape, np.inf)  # interval arithmetic was exact here
    bias = np.concatenate([layer.bias[rows], -layer.bias[rows]])
    if inner is not None:
        bound[0] = _over_domain(inner, left_over[0], offset[0], bound[0], bias)
    # The sum with the bias is rounded, and so is the functional's own last sum.
    bound = bound + bias
    bound += gamma(3) * (np.abs(bound) + np.abs(bias))
    new_low, new_high = found.lower.copy(), found.upper.copy()
    new_high[:, rows] = np.minimum(new_high[:, rows], bound[:, : rows.size])
    new_low[:, rows] = np.maximum(new_low[:, rows], -bound[:, rows.size :])
    return Range(new_low, new_high, found.reach)


def box_support(rows: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Safe upper bounds of functionals (B, k, d) over boxes (B, d), shape (B, k)."""
    middle, radius = 0.5 * (lower + upper), 0.5 * (upper - lower)
    widened = radius + gamma(rows.shape[-1]) * np.maximum(np.abs(lower), np.abs(upper))
    return np.asarray((rows @ middle[:, :, None] + np.abs(rows) @ widened[:, :, None])[:, :, 0])


def _over_domain(
    inner: Domain, rows: FloatArray, offset: FloatArray, bound: FloatArray, bias: FloatArray
) -> FloatArray:
    """Bounds over a domain that is smaller than its bounding box, where they are still needed.

    Functionals come in pairs, z and -z: a unit with one of them at most zero is decided.
    """
    half = len(bound) // 2
    open_ = (bound + bias > 0).reshape(2, half).all(axis=0)
    chosen = np.flatnonzero(np.concatenate([open_, open_]))
    if chosen.size == 0:
        return bound
    picked = rows[chosen]
    support = inner.support(picked)
    reach = np.maximum(np.abs(inner.lower), np.abs(inner.upper))
    reach = np.where(np.isfinite(reach), reach, 0.0)
    support = support + gamma(picked.shape[1]) * (np.abs(picked) @ reach + np.abs(support))
    result = bound.copy()
    result[chosen] = np.minimum(bound[chosen], support + offset[chosen])
    return result
