"""Pre-activation bounds: interval, then linear, then LP.

Given phases constrain (a unit that is on has z >= 0) and linearise (its output is exactly its
slope times z).  All phases that follow from them and from the bounds are returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import NetworkError
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Layer, Network, check_two_slopes
from lipyomo.networks.phases import OPEN, RIGHT, Phases, flat, open_phases
from lipyomo.problems.domains import Domain
from lipyomo.problems.settings import Relaxation
from lipyomo.relaxations.linear.balls import within
from lipyomo.relaxations.linear.chain import AffineChain
from lipyomo.relaxations.linear.layers import (
    LayerBounds,
    PhaseBatch,
    Stack,
    by_layer,
    parts_of,
    slope_ranges,
)
from lipyomo.relaxations.linear.lp import tighten_by_programs
from lipyomo.relaxations.linear.params import PARAMS
from lipyomo.relaxations.linear.relax import Switches, activated, interval_range, layer_lines


@with_one_blas_thread
def preactivation_bounds(
    network: Network,
    domain: Domain,
    phases: Phases | None = None,
    relaxation: Relaxation = "linear",
    time_limit: float = math.inf,
    stop: Callable[[], bool] | None = None,
) -> LayerBounds:
    """Bound every hidden pre-activation over a domain, for a partial pattern.

    Parameters
    ----------
    network : Network
    domain : Domain
        Bounded or not; unbounded pre-activations get infinite bounds.
    phases : Phases, optional
        Partial pattern; all units are open by default.
    relaxation : {'linear', 'interval', 'lp', 'auto'}, optional
        The tightest relaxation to use; each starts from the coarser one.  ``auto`` adds ``lp`` on
        small networks.  There are no linear programs for smooth networks.
    time_limit : float, optional
        Seconds for linear programs; units not reached by then keep their linear bounds.  Without a
        limit, ``auto`` spends little.
    stop : callable, optional
        Polled between steps; once True, the remaining bounds are interval bounds, and no more
        linear programs are solved.

    Returns
    -------
    LayerBounds
        Smooth units are open unless they have one slope on the whole range of their pre-activation.

    Raises
    ------
    NetworkError
        If phases were given for a smooth network.
    """
    if phases is not None:
        check_two_slopes(network, "phases", "leave them out", NetworkError)
    start = open_phases(network) if phases is None else phases
    low, high = domain.lower[None, :], domain.upper[None, :]
    stack = Stack.unknown(flat(start)[None], low, high)
    linear = relaxation != "interval" and domain.is_bounded
    propagate(network.hidden, domain, stack, linear=linear, programs=True, stop=stop)
    lower, upper = (by_layer(network.hidden, ends[0]) for ends in (stack.lower, stack.upper))
    found_phases = by_layer(network.hidden, stack.phases[0])
    found = LayerBounds(
        lower,
        upper,
        "linear" if linear and len(start) > 1 else "interval",
        tuple(map(_of_one_slope, network.hidden, lower, upper, found_phases)),
        not bool(stack.alive[0]),
    )
    programs = relaxation == "lp" or (
        relaxation == "auto" and 0 < found.unstable <= PARAMS.lp_units
    )
    if network.smooth or not programs or found.empty or not domain.is_bounded:
        return found
    limit = PARAMS.seconds if relaxation == "auto" and time_limit == math.inf else time_limit
    return tighten_by_programs(network, domain, found, Clock(limit, stop))._replace(relaxation="lp")


def _of_one_slope(
    layer: Layer, lower: FloatArray, upper: FloatArray, phases: npt.NDArray[np.int8]
) -> npt.NDArray[np.int8]:
    """Fix the phases of smooth units whose slope is constant on their whole range."""
    if not layer.curves:
        return phases
    left, right = slope_ranges(layer, lower, upper)
    return np.where(layer.curved & (left == right), np.int8(RIGHT), phases)


def propagate(
    layers: Sequence[Layer],
    domain: Domain | None,
    stack: Stack,
    *,
    linear: bool = True,
    intervals: bool = True,
    programs: bool = False,
    first: int = 0,
    errors: FloatArray | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Tighten `stack` in place: bounds, phases implied by them, and which patterns are infeasible.

    Parameters
    ----------
    layers : sequence of Layer
        The hidden layers.
    domain : Domain or None
        The boxes of the stack are intersected with it; None if it contains them.
    stack : Stack
        Its bounds are intersected with those found.
    linear : bool, optional
        Whether to back-substitute (CROWN; Zhang et al., 2018), which needs bounded boxes.  Only
        bounds that may still decide a unit, or contradict its phase, are computed.
    intervals : bool, optional
        Whether to use interval arithmetic from layer to layer.
    programs : bool, optional
        Whether to use the rows of a polytope, at the price of a linear program per functional.
    first : int, optional
        Layers before this one keep their bounds.
    errors : ndarray, shape (N,), optional
        Error bounds of the pre-activations if the weights are not exact (without `intervals`).
    stop : callable, optional
        Polled between steps; once True, the remaining bounds are interval bounds.
    """
    over = within(domain, stack.low, stack.high, programs)
    chain = AffineChain(over, stop)
    low, high = over.lower, over.upper
    kinked = np.concatenate([layer.kinked for layer in layers] or [np.zeros(0, dtype=bool)])
    curved = np.concatenate([layer.curved for layer in layers] or [np.zeros(0, dtype=bool)])
    held = kinked & (stack.phases != OPEN)
    wanted = _undecided(stack, held) | curved
    if not intervals:  # ranges of units without a kink serve interval arithmetic only
        wanted &= kinked | ~np.isfinite(stack.lower).all(axis=0)
    end = 0

    def late() -> bool:
        return intervals and stop is not None and stop()

    for position, layer in enumerate(layers):
        linear = linear and not (position and late())
        start, end = end, end + layer.units
        part = stack.layer(slice(start, end))
        pick = wanted[start:end]
        if intervals:
            part.meet(*interval_range(layer, low, high))
            pick = _undecided(part, held[:, start:end]) | layer.curved
        if linear or position == 0:
            chain = chain.affine(parts_of(layer).split, layer.bias)
            if position >= first and not (intervals and position == 0 and over.intervals_suffice):
                index = np.flatnonzero(pick)
                found = chain.range(index)
                if errors is not None:
                    room = errors[start:end][index]
                    found = found[0] - room, found[1] + room
                part.meet(*found, index)
        if position >= first:
            part.decide()
            part.phases[:, layer.curved] = OPEN
        if intervals:
            part.cut(layer.kinked)
            low, high = activated(layer, part.phases, part.lower, part.upper)
        linear = linear and position + 1 < len(layers) and not late()
        if linear:
            chain = _through_units(chain, layer, part, (low, high))
    if not intervals:
        stack.cut(kinked)


def _through_units(
    chain: AffineChain, layer: Layer, part: Stack, outputs: tuple[FloatArray, FloatArray]
) -> AffineChain:
    """Extend a chain by the units of a layer, whose phases and bounds are in `part`.

    `outputs` are ranges (B, units) of the units' outputs, used for layers with smooth units only.
    """
    slopes = Switches.of(layer, part.phases)
    lower, upper, left, right = part.lower, part.upper, *slopes
    members = slopes.members
    lower, upper = lower[:, members], upper[:, members]
    left, right = left[:, members], right[:, members]
    lines = layer_lines(layer, members, lower, upper, left, right)
    size = np.maximum(np.abs(left * lower), np.abs(right * upper)) * (1.0 + UNIT)
    if layer.curves:
        size = np.maximum(size, np.maximum(*map(np.abs, outputs))[:, members])
    return chain.activate(slopes.left[0], members, lines, size)


def follow(
    layers: Sequence[Layer],
    domain: Domain,
    stack: Stack,
    before: PhaseBatch,
    errors: FloatArray | None = None,
) -> None:
    """Propagate phases fixed since `before`, shape (B, N), to other units by back-substitution.

    `layers`, `stack` and `errors` are those of `propagate`.
    """
    more = np.flatnonzero(stack.alive & (stack.phases != before).any(axis=1))
    if more.size:
        some = stack.take(more)
        propagate(layers, domain, some, intervals=False, first=1, errors=errors)
        stack.put(more, some)


def _undecided(stack: Stack, held: BoolArray) -> BoolArray:
    """Return units (N,) that a bound may still decide, or whose given phase it may contradict."""
    wanted = (stack.lower < 0) & (stack.upper > 0)
    if held.any():
        wanted |= held & (stack.lower <= 0) & (stack.upper >= 0)
    return np.asarray(wanted.any(axis=0))
