"""Probing: what follows from an open unit being on, and from its being off.

Each open unit is fixed in turn.  Its sign is a half-space in the inputs (by the linear bounds of
its pre-activation), which shrinks the box; over that box, with the unit fixed, everything is
bounded again.  A contradiction decides the unit for good; otherwise the adjoint or tangent that
arrives at the unit is known *given* its switch, which is all that the encoding of the product
``s = a t`` needs.  All probes run as one batch of boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lipyomo.bounds.derivative import (
    DerivativeBounds,
    InputBall,
    Switches,
    chain_bounds,
    functional_set,
)
from lipyomo.bounds.interval import PhaseBatch, Slab, activated, interval_range, slope_pair
from lipyomo.bounds.linear import Link, back_substitute
from lipyomo.bounds.parts import parts_of
from lipyomo.bounds.preactivation import (
    LayerBounds,
    batched_preactivation_bounds,
    box_support,
    preactivation_bounds,
)
from lipyomo.bounds.relax import unit_lines
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray, Network
from lipyomo.norms import InputNorm, OutputNorm
from lipyomo.numerics.rounding import UNIT
from lipyomo.phases import LEFT, OPEN, RIGHT, decide

Chain: TypeAlias = Callable[[list[PhaseBatch]], tuple[list[FloatArray], list[FloatArray]]]
"""Bounds (P, n_i) of what arrives at each layer, for the phases of some probes."""

_ENTRIES = 1 << 22


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


@dataclass(frozen=True)
class Probes:
    """The boxes that remain when one open unit is fixed: row p is one probe.

    Attributes
    ----------
    layer, unit : ndarray of int, shape (P,)
        The unit that is fixed.
    on : ndarray of bool, shape (P,)
        To its right-hand slope, or to its left-hand one.
    phases : list of int8 arrays, shapes (P, n_i)
        Everything that follows.
    empty : ndarray of bool, shape (P,)
        The unit cannot have that sign.
    """

    layer: npt.NDArray[np.intp]
    unit: npt.NDArray[np.intp]
    on: BoolArray
    phases: list[PhaseBatch]
    empty: BoolArray

    @property
    def count(self) -> int:
        """Number of probes."""
        return int(self.layer.size)


def probe(network: Network, domain: Domain, bounds: LayerBounds) -> tuple[LayerBounds, Probes]:
    """Fix every open unit to either side.

    Parameters
    ----------
    network : Network
    domain : Domain
        Bounded; otherwise nothing is probed.
    bounds : LayerBounds
        Of the pre-activations over `domain`.

    Returns
    -------
    bounds : LayerBounds
        With the units closed that have a contradictory side; ``empty`` if a unit has two.
    probes : Probes
        Of the units that stay open.
    """
    places = [
        (i, int(j), side)
        for i, phase in enumerate(bounds.phases)
        for j in np.flatnonzero(phase == OPEN)
        for side in (True, False)
    ]
    if not places or not domain.is_bounded or bounds.empty:
        return bounds, _no_probes(network)
    layer, unit = np.array([p[0] for p in places]), np.array([p[1] for p in places])
    on = np.array([p[2] for p in places])
    phases = [np.repeat(p[None, :], len(places), axis=0) for p in bounds.phases]
    for i in range(len(phases)):
        rows = np.flatnonzero(layer == i)
        phases[i][rows, unit[rows]] = np.where(on[rows], RIGHT, LEFT)
    wanted = Probes(layer, unit, on, phases, np.zeros(len(places), dtype=bool))
    lower, upper, empty = _boxes(network, domain, bounds, wanted)
    widest = max(network.sizes)
    chunk = max(1, _ENTRIES // (2 * widest * widest))
    for first in range(0, len(places), chunk):
        part = slice(first, first + chunk)
        low, high, wrong = batched_preactivation_bounds(
            network, lower[part], upper[part], [p[part] for p in phases]
        )
        empty[part] |= wrong
        closed = decide(tuple(p[part] for p in phases), low, high)
        for whole, new in zip(phases, closed, strict=True):
            whole[part] = new
    found = _decided(network, domain, bounds, replace(wanted, empty=empty))
    left = np.array([found.phases[i][j] == OPEN for i, j, _ in places])
    kept = Probes(layer[left], unit[left], on[left], [p[left] for p in phases], empty[left])
    return found, kept


def adjoints_given_switch(
    network: Network,
    probes: Probes,
    bounds: DerivativeBounds,
    functionals: FloatArray | OutputNorm,
) -> GivenSwitch:
    """Bounds of the adjoint of each unit's output, given the unit's switch.

    Parameters
    ----------
    network : Network
    probes : Probes
    bounds : DerivativeBounds
        Adjoint bounds that hold in any case.
    functionals : ndarray (k, m) or OutputNorm
        As for `adjoint_bounds`.
    """
    ball = functional_set(functionals, network.output_dim)
    matrices = [parts_of(layer).split.transposed for layer in reversed(network.layers[1:])]

    def run(phases: list[PhaseBatch]) -> tuple[list[FloatArray], list[FloatArray]]:
        later = zip(reversed(network.hidden[1:]), reversed(phases[1:]), strict=True)
        switches = [Switches.of(layer, phase) for layer, phase in later]
        found = chain_bounds(matrices, switches, ball, bounds.rung)
        return found.lower[::-1], found.upper[::-1]

    return _collected(probes, bounds, run)


def tangents_given_switch(
    network: Network, probes: Probes, bounds: DerivativeBounds, input_norm: InputNorm
) -> GivenSwitch:
    """Bounds of the tangent of each unit's pre-activation, given the unit's switch.

    Parameters
    ----------
    network : Network
    probes : Probes
    bounds : DerivativeBounds
        Tangent bounds that hold in any case.
    input_norm : {'l1', 'l2', 'linf'}
    """
    matrices = [parts_of(layer).split for layer in network.hidden]

    def run(phases: list[PhaseBatch]) -> tuple[list[FloatArray], list[FloatArray]]:
        earlier = zip(network.hidden[:-1], phases[:-1], strict=True)
        switches = [Switches.of(layer, phase) for layer, phase in earlier]
        found = chain_bounds(matrices, switches, InputBall(input_norm), bounds.rung)
        return found.lower, found.upper

    return _collected(probes, bounds, run)


def _collected(probes: Probes, bounds: DerivativeBounds, run: Chain) -> GivenSwitch:
    """Read off what arrives at the fixed unit of each probe, never looser than `bounds`."""
    given = GivenSwitch.of(bounds)
    widest = max((low.size for low in bounds.lower), default=1)
    chunk = max(1, _ENTRIES // (2 * widest * widest))
    for first in range(0, probes.count, chunk):
        part = slice(first, first + chunk)
        lower, upper = run([p[part] for p in probes.phases])
        for i in range(len(lower)):
            rows = np.flatnonzero(probes.layer[part] == i)
            if not rows.size:
                continue
            unit, on = probes.unit[part][rows], probes.on[part][rows]
            shape = (len(probes.layer[part]), lower[i].shape[1])
            low = np.broadcast_to(lower[i], shape)[rows, unit]
            high = np.broadcast_to(upper[i], shape)[rows, unit]
            for side, lows, highs in (
                (on, given.on_lower[i], given.on_upper[i]),
                (~on, given.off_lower[i], given.off_upper[i]),
            ):
                lows[unit[side]] = np.maximum(lows[unit[side]], low[side])
                highs[unit[side]] = np.minimum(highs[unit[side]], high[side])
    return given


def _decided(network: Network, domain: Domain, bounds: LayerBounds, probes: Probes) -> LayerBounds:
    """Close the units one side of which is contradictory, and bound again."""
    if not probes.empty.any():
        return bounds
    phases = [p.copy() for p in bounds.phases]
    hit: set[tuple[int, int]] = set()
    for k in np.flatnonzero(probes.empty):
        i, j = int(probes.layer[k]), int(probes.unit[k])
        if (i, j) in hit:
            return replace(bounds, empty=True)
        hit.add((i, j))
        phases[i][j] = LEFT if probes.on[k] else RIGHT
    again = preactivation_bounds(network, domain, tuple(phases), "linear")
    lower = [np.maximum(a, b) for a, b in zip(again.lower, bounds.lower, strict=True)]
    upper = [np.minimum(a, b) for a, b in zip(again.upper, bounds.upper, strict=True)]
    return replace(
        bounds,
        lower=lower,
        upper=[np.maximum(a, b) for a, b in zip(lower, upper, strict=True)],
        phases=decide(again.phases, lower, upper),
        empty=again.empty,
    )


def _no_probes(network: Network) -> Probes:
    none = np.zeros(0, dtype=np.intp)
    phases = [np.zeros((0, layer.units), dtype=np.int8) for layer in network.hidden]
    return Probes(none, none, np.zeros(0, dtype=bool), phases, np.zeros(0, dtype=bool))


def _boxes(
    network: Network, domain: Domain, bounds: LayerBounds, wanted: Probes
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Boxes (P, d) around the inputs for which the fixed units can have their sign.

    A unit that is on has ``0 <= z <= A x + c``; with M the maximum of the right-hand side over the
    box, input j cannot be farther than ``M / |A_j|`` from its end that is best for the unit.
    """
    shape = (wanted.count, domain.dimension)
    lower = np.broadcast_to(domain.lower, shape).copy()
    upper = np.broadcast_to(domain.upper, shape).copy()
    empty = np.zeros(wanted.count, dtype=bool)
    low, high = domain.lower[None, :], domain.upper[None, :]
    before_low, before_high = low, high
    links: list[Link] = []
    for i, layer in enumerate(network.hidden):
        phase = bounds.phases[i][None, :]
        slab = Slab(
            bounds.lower[i][None, :],
            bounds.upper[i][None, :],
            interval_range(layer, before_low, before_high).reach,
            np.zeros(1, dtype=bool),
        )
        rows = np.flatnonzero(wanted.layer == i)
        if rows.size:
            sign = np.where(wanted.on[rows], 1.0, -1.0)
            weight = layer.weight[wanted.unit[rows]]
            dense = weight if isinstance(weight, np.ndarray) else weight.toarray()
            functional, offset = back_substitute((sign[:, None] * dense)[None], links)
            bias = sign * layer.bias[wanted.unit[rows]]
            best = (box_support(functional, low, high) + offset)[0] + bias
            best += 4.0 * UNIT * (np.abs(best) + np.abs(offset[0]) + np.abs(bias))
            empty[rows] = best < 0
            A = functional[0]
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                step = (1.0 + 4.0 * UNIT) * np.maximum(best, 0.0)[:, None] / np.abs(A)
            room = UNIT * (np.abs(low) + np.abs(high))
            lower[rows] = np.where(A > 0, np.maximum(low, high - step - room), low)
            upper[rows] = np.where(A < 0, np.minimum(high, low + step + room), high)
        pair = slope_pair(layer, phase, slab.lower, slab.upper)
        lines = unit_lines(slab.lower, slab.upper, *pair)
        links.append(Link(parts_of(layer).split, layer.bias, lines, slab.reach))
        before_low, before_high = activated(layer, phase, slab)
    return lower, upper, empty
