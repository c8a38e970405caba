"""Semidefinite bounds of boxes, which close some boxes without turning them into nodes.

The boxes of a batch are similar, so that each starts from the multipliers of the boxes before:
those of a unit itself if it was unstable there, else the median of its layer.  This saves most of
the time of such a bound.  All these bounds are proved, with rounding; where they do not reach the
cutoff, they become bounds of the halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.search.spaces.joint.bound import BoundedBoxes
from lipyomo.search.spaces.joint.context import JointContext
from lipyomo.search.spaces.joint.handover import presolved_phases
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import DualCertificate


@dataclass(frozen=True, eq=False)
class Closing:
    """Boxes with semidefinite bounds.

    Attributes
    ----------
    found : BoundedBoxes
        The same boxes, with bounds of their pairs that are not larger than before.
    certificates : tuple of (mapping of int to DualCertificate)
        The certificates of each box, by target.
    tried : ndarray of bool, shape (N,)
        Which of the boxes got a semidefinite bound.
    """

    found: BoundedBoxes
    certificates: tuple[dict[int, DualCertificate], ...]
    tried: BoolArray


class KnownMultipliers:
    """Multipliers of the boxes that were bounded last, as starts for the next ones.

    Parameters
    ----------
    system : UnitSystem
    """

    def __init__(self, system: UnitSystem) -> None:
        self._layers = np.repeat(np.arange(system.depth), np.diff(system.starts))
        self._lam: dict[int, FloatArray] = {}
        self._zeta: dict[int, FloatArray] = {}

    def start(self, target: int) -> tuple[IntArray, FloatArray] | None:
        """Return all units with multipliers for a target, or None if nothing is known."""
        if target not in self._zeta:
            return None
        lam = self._lam[target].copy()
        seen = np.isfinite(lam)
        common = float(np.median(lam[seen])) if seen.any() else 1.0
        for layer in np.unique(self._layers):
            here = self._layers == layer
            some = lam[here & seen]
            lam[here & ~seen] = float(np.median(some)) if some.size else common
        return np.arange(lam.size), np.concatenate([self._zeta[target], lam])

    def learn(self, own: DualCertificate) -> None:
        """Store the multipliers of a box."""
        head = own.multipliers.size - own.units.size
        lam = self._lam.setdefault(own.target, np.full(self._layers.size, np.nan))
        lam[own.units] = own.multipliers[head:]
        self._zeta[own.target] = own.multipliers[:head]


def closing(
    context: JointContext,
    space: PhaseContext,
    found: BoundedBoxes,
    value: float,
    which: BoolArray,
    clock: Clock,
) -> Closing:
    """Bound boxes by semidefinite bounds, those with the smallest bounds first.

    Once too many boxes have failed to reach the cutoff (`Params.patience`), or time is up, the rest
    are left as they are.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    found : BoundedBoxes
    value : float
        The value of the incumbent.
    which : ndarray of bool, shape (N,)
        Boxes that are to be bounded.
    clock : Clock
    """
    cutoff = space.cutoff(value)
    pairs = found.boxes.pairs.copy()
    known = KnownMultipliers(space.system)
    every = presolved_phases(space, found)
    certificates: list[dict[int, DualCertificate]] = [{} for _ in range(len(pairs))]
    tried = np.zeros(len(pairs), dtype=bool)
    patience = context.params.patience
    for k in np.argsort(found.boxes.bounds, kind="stable").tolist():
        if patience < 0 or clock.expired:
            break
        if not which[k] or found.boxes.bounds[k] <= cutoff:
            continue
        tried[k] = True
        certificates[k] = _bounded(context, space, every[k], pairs[k], value, known, clock)
        patience += 2 if pairs[k].max() <= cutoff else -1
    boxes = replace(found.boxes, pairs=pairs)
    return Closing(BoundedBoxes(boxes, found.stack), tuple(certificates), tried)


def _bounded(
    context: JointContext,
    space: PhaseContext,
    own: FlatPhases,
    pairs: FloatArray,
    value: float,
    known: KnownMultipliers,
    clock: Clock,
) -> dict[int, DualCertificate]:
    """Lower the bounds of a box's pairs (k, q) in place until one stays above the cutoff."""
    bounder, targets = space.bounder, space.targets
    cutoff, aim = space.cutoff(value), space.aim(value)
    form = space.system.form(own)
    found: dict[int, DualCertificate] = {}
    if not form.units.size:
        return found
    of = context.of_targets(pairs[None])[0]
    for target in np.argsort(-of, kind="stable").tolist():
        if of[target] <= cutoff:
            break
        least = bounder.minimise(form, target, known.start(target), aim, lambda: clock.expired)
        if least is None:
            break
        multipliers = least.state.multipliers
        bound = bounder.prover.bound(form, target, multipliers)
        found[target] = DualCertificate(target, form.units, multipliers)
        known.learn(found[target])
        row, column = int(targets.rows[target]), int(targets.columns[target])
        where = (row, column) if targets.by_column else (row,)
        pairs[where] = np.minimum(pairs[where], bound)
        if bound > cutoff:
            break
    return found
