"""Dual ascent on the nodes of a tree: which bounds, from where, how many steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.bnb.experience import Experience
from lipyomo.bounds.dual_ascent import RATE, DualAscent, Rows, SingleArray
from lipyomo.bounds.stack import Stack
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray
from lipyomo.phases import LEFT, OPEN, RIGHT

HalfArray = npt.NDArray[np.float16]

STEPS = 24
"""Steps on a node; children go on from where their parent got to."""

WARM_RATE = 0.1
"""Their first step, as a share of a multiplier's natural size."""

COLD = 2
"""Times as many steps where there is no parent to go on from."""

NEAR = 0.1
"""Bounds that leave a unit open by no more than this share of its range ascend once more, under
what others have decided in the meantime: many of them get decided.  Once: a further round
takes a fifth more time and no fewer nodes."""

NEAR_STEPS, NEAR_RATE = 16, 0.02
"""Then; they decide as many of those bounds as 24 steps that begin with `WARM_RATE`."""

MANY, FEW = 0.2, 0.1
"""Where a smaller share of them gets decided, only those that are proportionally nearer ascend, but
not less than this share."""

MOST_WORK = 5_000_000_000
"""Multiplications that the bounds of a batch may take; fewer bounds or steps stay within."""

MOST_ENTRIES = 4_000_000
"""Multipliers that are iterated at once; the bounds nearest to deciding a unit come first."""

KEPT_BYTES = 1 << 16
"""Multipliers that are kept for the children, those of the bounds nearest to deciding first."""


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of a node's bounds, for its children to start from.

    Attributes
    ----------
    phases : ndarray of int8, shape (N,)
        That they were found under.
    keys : ndarray of int, shape (R,)
        ``2 unit + (sign < 0)``, rising.
    values : ndarray of float16, shape (R, columns)
    """

    phases: FlatPhases
    keys: npt.NDArray[np.int64]
    values: HalfArray


class Tightener:
    """Tightens stacks of nodes by dual ascent.

    Parameters
    ----------
    system : UnitSystem
    domain : Domain
        Bounded.
    """

    def __init__(self, system: UnitSystem, domain: Domain) -> None:
        self._system = system
        self._domain = domain
        self._last = system.starts[-2] if system.depth else 0

    @cached_property
    def ascent(self) -> DualAscent:
        """The ascent of this network on this domain."""
        system = self._system
        return DualAscent(system.network.hidden, self._domain, system.weight_errors)

    def tighten(
        self,
        stack: Stack,
        inherited: list[Multipliers | None],
        seen: list[tuple[BoolArray, BoolArray] | None],
        experience: Experience | None = None,
    ) -> list[Multipliers | None]:
        """Tighten the nodes of `stack` in place.

        Parameters
        ----------
        stack : Stack
            As `propagate` left it.
        inherited : list of Multipliers or None
            Of each node's parent.
        seen : list of (ndarray of bool, ndarray of bool) or None
            Units that known points of the node have on their left and on their right side.
        experience : Experience, optional
            Knows and hears how many of the bounds that were near to deciding their units got there.
            Without it, for a proof, these are not improved any further; and where there are several
            layers, all ascend as long as from scratch: fewer cases are to be written and checked.

        Returns
        -------
        list of Multipliers or None
            For the nodes' children.
        """
        ascent = self.ascent
        wanted = self._wanted(stack, inherited, seen)
        most = MOST_ENTRIES // max(ascent.columns * len(wanted), 1)
        parts = [_nearest(stack, b, np.flatnonzero(row), most) for b, row in enumerate(wanted)]
        node = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        keys = np.concatenate(parts)
        if not keys.size:
            return list(inherited)
        proof = experience is None and self._system.depth > 1
        most = COLD * STEPS if proof or not all(inherited) else STEPS
        steps = int(min(most, MOST_WORK // (ascent.work * keys.size)))
        if not steps:
            return list(inherited)
        rows = Rows(node, keys // 2, np.where(keys % 2 == 0, 1.0, -1.0))
        relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
        start = np.empty((rows.count, ascent.columns), dtype=np.float32)
        known = np.zeros(rows.count, dtype=bool)
        stop = 0
        for b, part in enumerate(parts):
            begin, stop = stop, stop + part.size
            known[begin:stop] = _inherit(start[begin:stop], part, stack.phases[b], inherited[b])
        if not known.all():
            new = np.flatnonzero(~known)
            start[new] = ascent.start(relaxation, rows[new])
        rate = RATE if most > STEPS else WARM_RATE
        found = ascent.ascend(relaxation, rows, start, steps, rate)
        bounds = ascent.bounds(relaxation, rows, found)
        self._apply(stack, rows, bounds)
        if experience is not None:
            self._go_on(stack, rows, (found, bounds), experience)
        room = KEPT_BYTES // (2 * ascent.columns)
        half = np.clip(found, -6e4, 6e4).astype(np.float16)
        kept: list[Multipliers | None] = []
        stop = 0
        for b, part in enumerate(parts):
            begin, stop = stop, stop + part.size
            here = half[begin:stop].copy()
            if part.size > room:
                near = np.sort(np.argsort(bounds[begin:stop], kind="stable")[:room])
                part, here = part[near], here[near]
            kept.append(Multipliers(stack.phases[b].copy(), part, here))
        return kept

    def _go_on(
        self,
        stack: Stack,
        rows: Rows,
        known: tuple[SingleArray, FloatArray],
        experience: Experience,
    ) -> None:
        """Improve those multipliers and bounds in place that are near to deciding their units."""
        found, bounds = known
        node, unit = rows.node, rows.unit
        share = experience.decided / max(experience.near, 1) if experience.near else MANY
        reach = NEAR * min(max(share / MANY, FEW), 1.0) * (stack.upper - stack.lower)[node, unit]
        open_still = stack.alive[node] & (stack.phases[node, unit] == OPEN)
        near = np.flatnonzero(open_still & (bounds > 0.0) & (bounds < reach))
        if not near.size:
            return
        some = Rows(node[near], unit[near], rows.sign[near])
        ascent = self.ascent
        relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
        most = MOST_WORK // (ascent.work * near.size)
        steps = int(min(NEAR_STEPS, most))
        better = ascent.ascend(relaxation, some, found[near], steps, NEAR_RATE)
        found[near], bounds[near] = better, ascent.bounds(relaxation, some, better)
        experience.near += near.size
        experience.decided += int(np.count_nonzero(bounds[near] < 0.0))
        self._apply(stack, some, bounds[near])

    def _apply(self, stack: Stack, rows: Rows, bounds: FloatArray) -> None:
        """Write the bounds into the stack, and what follows."""
        up = rows.sign > 0
        np.minimum.at(stack.upper, (rows.node[up], rows.unit[up]), bounds[up])
        np.maximum.at(stack.lower, (rows.node[~up], rows.unit[~up]), -bounds[~up])
        stack.settle(self._system.kinked)

    def _wanted(
        self,
        stack: Stack,
        inherited: list[Multipliers | None],
        seen: list[tuple[BoolArray, BoolArray] | None],
    ) -> BoolArray:
        """Which bounds are worth having, shape (B, 2 N): by key."""
        still = (stack.phases == OPEN) & stack.alive[:, None]
        wanted = np.stack([still, still], axis=2)
        for b in np.flatnonzero(stack.alive).tolist():
            sides, parent = seen[b], inherited[b]
            if sides is not None:
                left, right = sides
                wanted[b, self._last :, 0] &= ~right[self._last :]
                wanted[b, self._last :, 1] &= ~left[self._last :]
            elif parent is not None:  # a unit that cannot be where it was decided closes the node
                phases = stack.phases[b]
                new = np.flatnonzero((parent.phases == OPEN) & (phases != OPEN))
                wanted[b, new, 0] |= phases[new] == RIGHT
                wanted[b, new, 1] |= phases[new] == LEFT
        return wanted.reshape(len(wanted), -1)


def _nearest(stack: Stack, b: int, keys: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many of the keys: those of the bounds nearest to deciding a unit."""
    if keys.size <= most:
        return keys
    far = np.stack([stack.upper[b], -stack.lower[b]], axis=1).reshape(-1)[keys]
    return np.sort(keys[np.argsort(far, kind="stable")[:most]])


def _inherit(
    start: SingleArray,
    keys: npt.NDArray[np.int64],
    phases: FlatPhases,
    inherited: Multipliers | None,
) -> BoolArray:
    """Write a parent's multipliers to `start`; tells which it has."""
    if inherited is None or not inherited.keys.size:
        return np.zeros(keys.size, dtype=bool)
    place = np.minimum(np.searchsorted(inherited.keys, keys), inherited.keys.size - 1)
    known = inherited.keys[place] == keys
    start[:] = inherited.values[place]
    start[:, np.flatnonzero((inherited.phases == OPEN) & (phases != OPEN))] = 0.0
    return np.asarray(known)
