"""Bounds of targets on parts of boxes, with switches that depend on the inputs.

`switches` finds the multipliers by an ascent, `switches_proof` proves a bound by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import Clock, fits, seconds_of
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.affine.system import NodeForm, UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.relaxations.semidefinite.signs import joined_form
from lipyomo.relaxations.semidefinite.switches import (
    RANK,
    Single,
    Standpoint,
    SwitchedForm,
    Weights,
    look_ahead,
    normed,
)
from lipyomo.relaxations.semidefinite.switches_proof import SwitchedErrors, proved_switched_bound

STEPS = 20
"""Number of steps between checks of their gain."""

MOST, LAST = 10, 4
"""Limits of checks with varying weights, and of those with fixed weights, after which vectors are
close enough to the best ones for a proof."""

AGAIN = 5
"""Steps with fixed weights after a warm start, before weights vary again."""

WORTH = 0.2
"""Share of the gap between proof and Lagrangian that further steps must gain."""

GAIN = 0.002
"""Share of the bound that the steps between checks must gain, and that a proof may lose."""


@dataclass(frozen=True, eq=False)
class PartBounds:
    """Bounds and decided units on a part of the domain.

    Attributes
    ----------
    lower, upper : ndarray, shape (N,)
        Bounds of pre-activations.
    low, high : ndarray, shape (d,)
        Bounds of the inputs.
    decided : ndarray of int, shape (H,)
        Units with a phase that does not follow from these bounds.
    on : ndarray of bool, shape (H,)
        Whether they are on.
    """

    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    decided: IntArray
    on: BoolArray


@dataclass(frozen=True, eq=False)
class SwitchedMinimum:
    """Result of minimising the bound of a target.

    Attributes
    ----------
    bound : float
        Proved bound.
    units, decided : ndarray of int, shapes (F,) and (H,)
        Open units, and decided ones whose phases were used.
    standing : Standpoint
    signs : ndarray, shape (d,), optional
        Signs by which directions are joined.
    off, on : ndarray, shape (F,)
        Look-ahead: relative decrease of the bound if a unit is off, or on, and everything else is
        kept.
    """

    bound: float
    units: IntArray
    decided: IntArray
    standing: Standpoint
    signs: FloatArray | None
    off: FloatArray
    on: FloatArray

    @property
    def nbytes(self) -> int:
        """Memory of vectors and weights."""
        parts = *vars(self.standing.vectors).values(), *vars(self.standing.weights).values()
        return sum(part.nbytes for part in parts)


class LoweredTargets(NamedTuple):
    """Result of lowering the bounds of several targets.

    Attributes
    ----------
    bounds : ndarray, shape (T,)
        The bounds given, lowered by those proved.
    minima : mapping of int to SwitchedMinimum
        Of the targets that were lowered, now or before.
    lowered : list of int
        Positions of the targets with a minimum for these units.
    worst : SwitchedMinimum or None
        That of the largest bound above the cutoff.
    solved : int
        Number of minimisations.
    """

    bounds: FloatArray
    minima: Mapping[int, SwitchedMinimum]
    lowered: list[int]
    worst: SwitchedMinimum | None
    solved: int


class SwitchedBounder:
    """Bounds of targets on parts of boxes, for the input norm linf.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    bounder : Bounder
        Provides the signs by which directions are joined.
    """

    def __init__(self, system: UnitSystem, targets: Targets, bounder: Bounder) -> None:
        self._system, self._targets, self._bounder = system, targets, bounder

    @staticmethod
    def serves(system: UnitSystem, targets: Targets, domain: Domain) -> bool:
        """Whether such bounds apply: to single functionals, the cube of directions, and inputs."""
        each = not (targets.by_column or targets.whole_ball)
        cube = targets.norm == "linf" and system.directions is None
        return each and cube and domain.is_bounded

    def predicted(self, units: int) -> float:
        """Predict the seconds that a bound takes."""
        d = self._system.inputs
        steps = (MOST + LAST) * STEPS * 10.0 * RANK * units * (d + units)
        proofs = LAST * 16.0 * units**2 * (d + units)
        return seconds_of(0.5 * (steps + proofs))

    def fits(self, clock: Clock, units: int, targets: int) -> bool:
        """Whether the bounds of so many targets fit into the time left.

        Otherwise their maximum is hardly lowered, and one bound of all targets is worth more.  In a
        row, bounds take less than half of what is predicted for each.
        """
        return fits(0.5 * targets * self.predicted(units), clock.left)

    def lowered(
        self,
        form: NodeForm,
        known: PartBounds,
        target: int,
        aim: float,
        clock: Clock,
        start: SwitchedMinimum | None = None,
    ) -> SwitchedMinimum:
        """Minimise the bound of a target until steps gain little, and prove it.

        Parameters
        ----------
        form : NodeForm
            With at least one unstable unit.
        known : PartBounds
        target : int
        aim : float
            Stop once the bound is at most this value.
        clock : Clock
            Steps end once it has expired.
        start : SwitchedMinimum, optional
            Warm start: the result on a part that contains this one.
        """
        known = self._in_reach(form, known)
        signs = self._bounder.signs(form, target, None if start is None else start.signs)
        switched, errors = self._form(form, known, target, signs)
        standing = None
        if start is not None:
            standing = _inherited(start, form.units, known.decided, switched, signs)
        try:
            with _wide():
                standing, bound = _lowered(switched, errors, standing, aim, clock)
                drops = [part / max(bound, 1e-300) for part in look_ahead(switched, standing)]
        except np.linalg.LinAlgError:  # overflow of single precision
            standing, bound, drops = (
                Standpoint.begun(switched),
                np.inf,
                [np.zeros(form.units.size)] * 2,
            )
        return SwitchedMinimum(bound, form.units, known.decided, standing, signs, *drops)

    def worst_first(
        self,
        form: NodeForm,
        known: PartBounds,
        targets: Sequence[int],
        bounds: FloatArray,
        cutoff: float,
        clock: Clock,
        minima: Mapping[int, SwitchedMinimum],
        report: Callable[[float], object] = lambda _: None,
    ) -> LoweredTargets:
        """Lower the bounds of targets, the largest one first, as far as it decides their maximum.

        Parameters
        ----------
        form : NodeForm
        known : PartBounds
        targets : sequence of int, length T
        bounds : ndarray, shape (T,)
            Their known bounds.
        cutoff : float
            Bounds at or below it need not be lowered.
        clock : Clock
        minima : mapping of int to SwitchedMinimum
            Results on a part that contains this one.
        report : callable, optional
            Called with a proved bound of all targets whenever it has dropped.
        """
        bounds, minima, lowered = bounds.copy(), dict(minima), []
        worst: SwitchedMinimum | None = None
        reached, solved, seconds = cutoff, 0, self.predicted(form.units.size)
        for index in np.argsort(-bounds, kind="stable").tolist():
            if bounds[index] <= reached:
                continue
            target = targets[index]
            found = minima.get(target)
            if found is None or not np.array_equal(found.units, form.units):
                if not clock.fits(seconds):
                    break
                found = self.lowered(form, known, target, reached, clock, found)
                solved += 1
            minima[target] = found
            lowered.append(index)
            bounds[index] = min(float(bounds[index]), found.bound)
            if bounds[index] > reached:
                worst, reached = found, float(bounds[index])
            report(float(bounds.max()))
        return LoweredTargets(bounds, minima, lowered, worst, solved)

    def _in_reach(self, form: NodeForm, known: PartBounds) -> PartBounds:
        """Drop phases of decided units behind the layer of the last open ones.

        They depend on outputs of the last switches, which are not variables of the program.
        """
        layer_of = self._system.layer_of
        kept = layer_of[known.decided] <= layer_of[form.units].max()
        return replace(known, decided=known.decided[kept], on=known.on[kept])

    def _form(
        self, form: NodeForm, known: PartBounds, target: int, signs: FloatArray | None
    ) -> tuple[SwitchedForm, SwitchedErrors]:
        """Return the program of a target, with directions joined, and its error bounds."""
        d, units, system = form.variables, form.units, self._system
        row, rows = int(self._targets.rows[target]), np.concatenate([units, known.decided])
        sized = self._bounder.prover.sized(form)
        sized = sized if signs is None else joined_form(sized, signs)
        inputs = sized.inputs
        middle = 0.5 * known.low + 0.5 * known.high
        radius = np.nextafter(np.maximum(known.high - middle, middle - known.low), np.inf)
        maps, sides = form.maps[rows], np.ones(len(rows))
        sides[units.size :] = np.where(known.on, 1.0, -1.0)
        offsets = maps[:, :d] @ middle + maps[:, -1]
        layers, h = _layers(system.layer_of[units]), np.maximum(known.upper[units], 0.0)
        switched = SwitchedForm(
            sized.rows[:, :inputs],
            sides[:, None] * maps[:, :d] * radius,
            sides[:, None] * maps[:, d:-1],
            sides * offsets,
            sized.objective[row, :inputs],
            sized.objective[row, inputs:],
            _room(np.hstack([maps[:, :d] * radius, maps[:, d:-1] * h]), known, rows),
            layers,
        )
        s, off = np.zeros(units.size), np.zeros(units.size)
        for layer in layers:
            sizes = sized.row_size[layer]
            off[layer] = sized.rounding * (sizes[:, :inputs].sum(axis=1) + sizes[:, inputs:] @ s)
            entries = np.abs(sized.rows[layer])
            amount = entries[:, :inputs].sum(axis=1) + entries[:, inputs:] @ s
            s[layer] = (1.0 + gamma(entries.shape[1])) * (amount + off[layer])
        most = np.maximum(np.abs(known.low), np.abs(known.high))
        entries = system.map_errors[rows]
        values = entries[:, :d] @ most + entries[:, d + units] @ h + entries[:, -1]
        values += gamma(d) * (np.abs(maps[:, :d]) @ (most + radius) + np.abs(maps[:, -1]))
        sizes = sized.objective_size[row]
        objective = sized.rounding * float(sizes[:inputs].sum() + sizes[inputs:] @ s)
        return switched, SwitchedErrors(s, h, 2.0 * off, 2.0 * values, 2.0 * objective)


def _wide() -> np.errstate:
    """Ignore overflows of single precision, which are detected in the results."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _lowered(
    form: SwitchedForm,
    errors: SwitchedErrors,
    start: Standpoint | None,
    aim: float,
    clock: Clock,
) -> tuple[Standpoint, float]:
    """Take steps with varying weights, then with fixed ones, and prove a bound."""
    standing = _first(form) if start is None else start.after(form, AGAIN, moving=False)
    last, bound = np.inf, np.inf
    for _ in range(MOST):
        value = standing.value
        if value <= aim * (1.0 - GAIN) or 0.0 <= last - value < GAIN * value or clock.expired:
            break
        standing, last = standing.lowered(form, STEPS), value
    for _ in range(LAST):
        standing = standing.after(form, STEPS, moving=False)
        found = proved_switched_bound(form, errors, standing)
        gained, bound = bound - found, min(bound, found)
        missing = bound - standing.value
        if bound <= aim or missing <= GAIN * bound or gained < WORTH * missing or clock.expired:
            break
    return standing, bound


def _first(form: SwitchedForm) -> Standpoint:
    """Return the standpoint after the first steps, without weights and then with them."""
    return Standpoint.begun(form).after(form, STEPS // 2, moving=False).lowered(form, STEPS)


def _room(terms: FloatArray, known: PartBounds, rows: IntArray) -> FloatArray:
    """Estimate the squares of pre-activations from their terms (R, k) and known bounds.

    Bounds of the first layer narrowed by splits are ignored: the inputs still vary fully.
    """
    reach = np.maximum(-known.lower, known.upper)[rows]
    sums, squares = np.abs(terms).sum(axis=1), np.square(terms).sum(axis=1)
    shares = reach / np.maximum(sums, 1e-150)
    shares = np.maximum(shares, ~terms[:, known.low.size :].any(axis=1))
    return np.asarray(np.square(shares) * squares + 1e-300)


def _layers(layer_of: IntArray) -> tuple[slice, ...]:
    """Return the runs of equal numbers as slices."""
    ends = np.flatnonzero(np.diff(layer_of)) + 1
    edges: Sequence[int] = [0, *ends.tolist(), len(layer_of)]
    return tuple(slice(a, b) for a, b in pairwise(edges))


def _inherited(
    start: SwitchedMinimum,
    units: IntArray,
    decided: IntArray,
    form: SwitchedForm,
    signs: FloatArray | None,
) -> Standpoint | None:
    """Restrict vectors and weights to units that are still open; None if the last layer changed."""
    vectors, weights, inner = start.standing.vectors, start.standing.weights, form.inner
    places, before = np.searchsorted(start.units, units), len(vectors.bases)
    if (places[:inner] >= before).any() or (places[inner:] < before).any():
        return None
    of_unit = dict(zip(start.decided.tolist(), weights.known.tolist(), strict=True))
    known = np.array([of_unit.get(unit, 0.0) for unit in decided.tolist()])
    bases, sides = vectors.bases[places[:inner]], vectors.sides[places[inner:] - before]
    directions = _joined(vectors.directions, start.signs, signs)
    vectors = replace(vectors, directions=directions, bases=bases, sides=sides)
    weights = Weights(weights.on[places], weights.off[places], known)
    return replace(start.standing, vectors=vectors, weights=weights)


def _joined(directions: Single, known: FloatArray | None, signs: FloatArray | None) -> Single:
    """Convert vectors of directions joined by `known` to directions joined by `signs`."""
    if signs is None:
        return directions
    each = directions
    if known is not None:
        each = np.empty((signs.size, directions.shape[1]), directions.dtype)
        each[known != 0], each[known == 0] = directions[0], directions[1:]
        each[known != 0] *= known[known != 0, None]
    together = signs[signs != 0].astype(each.dtype) @ each[signs != 0]
    return normed(np.vstack([together, each[signs == 0]]))
