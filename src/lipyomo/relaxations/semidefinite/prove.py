"""Proofs of semidefinite bounds: from floating-point multipliers to rigorous bounds.

The proof is that of `lipyomo.relaxations.semidefinite.verify`.  Its rounding margins need
magnitudes of all coefficients of a form.  They are computed once, with every unstable unit at its
steeper slope, and then hold for all forms with fewer unstable units.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.signal import SizeSignal, UnitMap, carry
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem, steepest
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.choice import Ball
from lipyomo.relaxations.semidefinite.columns import column_bounds
from lipyomo.relaxations.semidefinite.signs import FixedSigns, joined_form
from lipyomo.relaxations.semidefinite.verify import (
    SizedForm,
    VerifiedMatrix,
    bound_from,
    bounds_from,
)


class Exclusion(NamedTuple):
    """A phase to rule out: unstable unit number `position`, `on` or off.

    `step` is the multiple of the phase's hyperplane to subtract from the objective.
    """

    position: int
    on: bool
    step: float


class Prover:
    """Proofs of bounds of the targets under `phases` and all partial patterns that refine them.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    phases : ndarray of int8, shape (N,), optional
        By default every kinked unit is unstable.
    ball : {'l2', 'l1'}, optional
        The ball of functionals of a target that stands for all of them.
    join : bool, optional
        Whether inputs whose partial derivatives have a fixed sign under `phases` may be joined.

    Attributes
    ----------
    gradient_errors : ndarray, shape (k, d)
        Bounds of the rounding errors of the functionals' gradients under any such pattern.
    signs : FixedSigns or None
        Signs by which inputs may be joined; multipliers then are those of the joined form.
    """

    def __init__(
        self,
        system: UnitSystem,
        targets: Targets,
        phases: FlatPhases | None = None,
        ball: Ball = "l2",
        join: bool = False,
    ) -> None:
        self._system, self._targets, self._ball = system, targets, ball
        self._phases = system.root_phases() if phases is None else phases
        network, d = system.network, system.tangents.input_dim
        self._place = np.cumsum(self._phases == OPEN) - 1
        terms = 2 * system.depth + network.output_dim + 6 + network.head.inputs
        terms += sum(layer.inputs + 3 for layer in network.hidden)
        terms += 0 if system.directions is None else system.inputs
        self._rounding = 2.0 * terms * UNIT_ROUNDOFF + (system.depth + 2) * system.roughness
        last = self._carried(SizeSignal(None, d, None), steepest(network.hidden))[1]
        self.gradient_errors: FloatArray = self._rounding * last
        self.signs: FixedSigns | None = None
        if join and phases is not None:
            self.signs = FixedSigns(system, targets, phases, self.gradient_errors)

    def _carried(
        self, start: SizeSignal, unit_maps: list[UnitMap]
    ) -> tuple[list[FloatArray], FloatArray]:
        """Return magnitudes of all pre-activations, layer by layer, and of the objectives."""
        network = self._system.tangent_magnitudes
        head = np.abs(self._targets.functionals) @ network.head.sizes
        layers = [np.asarray(z.matrix) for z in carry(start, network.hidden, unit_maps)]
        if not layers:
            none = np.zeros((len(head), start.width - network.input_dim))
            return layers, np.hstack([np.asarray(head), none])
        signal = SizeSignal(layers[-1], start.width, None).past(unit_maps[-1])
        return layers, np.asarray(head @ signal.matrix)

    @cached_property
    def _magnitudes(self) -> tuple[FloatArray, FloatArray]:
        """Magnitudes of the rows of unstable units, and of the objectives."""
        system, unit_maps = self._system, []
        layers, d = system.network.hidden, system.tangents.input_dim
        for own, steep in zip(system.unit_maps(self._phases, d), steepest(layers), strict=True):
            slope = np.abs(own.slope)
            slope[own.units] = steep.slope[own.units]
            unit_maps.append(UnitMap(slope, own.units, own.columns, np.abs(own.change)))
        count = int(self._place[-1]) + 1 if system.count else 0
        start = SizeSignal(None, d + count, None)
        sizes, objective = self._carried(start, unit_maps)
        rows = [size[own.units] for size, own in zip(sizes, unit_maps, strict=True)]
        return np.concatenate([np.zeros((0, start.width)), *rows]), objective

    def joining(self, target: int, signs: FloatArray | None = None) -> FloatArray | None:
        """Return `signs` (d,), by default those by which the whole problem joins inputs."""
        if signs is None and self.signs is not None:
            return self.signs.of(target)
        return signs

    def bound(
        self,
        form: NodeForm,
        target: int,
        multipliers: FloatArray,
        signs: FloatArray | None = None,
    ) -> float:
        """Prove an upper bound of a target; infinite if the proof fails.

        Parameters
        ----------
        form : NodeForm
        target : int
        multipliers : ndarray
            (gamma if the target is a ball of functionals, zeta, lambda).
        signs : ndarray, shape (d,), optional
            Signs by which inputs are joined; by default those of the whole problem.
        """
        sized, zeta, lam, grouped = self._sized(form, target, multipliers, signs)
        whole = self._targets.whole_ball
        rows = np.arange(len(form.objective)) if whole else self._targets.rows[[target]]
        weights = None
        if whole and self._ball == "l1":
            weights = multipliers[: multipliers.size - lam.size][: len(rows)]
        matrix = VerifiedMatrix(sized, zeta, lam)
        return bound_from(matrix, rows, zeta, grouped, weights)

    def all_bounds(self, form: NodeForm, target: int, multipliers: FloatArray) -> FloatArray:
        """Prove bounds of all targets, shape (T,), by the multipliers of one of them.

        Infinite where the proof fails.
        """
        targets = self._targets
        sized, zeta, lam, grouped = self._sized(form, target, multipliers)
        own = targets.by_column or targets.whole_ball
        if own or sized.inputs < form.inputs:  # the multipliers apply to this target only
            found = np.full(targets.count, np.inf)
            if targets.by_column:
                found = self._by_column(column_bounds(self.sized(form), lam))
            found[target] = min(found[target], self.bound(form, target, multipliers))
            return found
        matrix = VerifiedMatrix(sized, zeta, lam)
        return bounds_from(matrix, targets.rows, zeta, grouped)

    def exclude(
        self,
        form: NodeForm,
        target: int,
        multipliers: FloatArray,
        tries: list[Exclusion],
        signs: FloatArray | None = None,
    ) -> FloatArray:
        """Prove bounds of a target with one more unit decided, all by the same multipliers.

        As ``q . w = 0``, the objective c can be replaced by ``c - step q``: q is ``e_k`` for a
        unit that is off and ``U_k - e_k`` for one that is on.

        Returns
        -------
        ndarray, shape (len(tries),)
            Infinite where the proof fails.
        """
        sized, zeta, lam, grouped = self._sized(form, target, multipliers, signs)
        row, d = int(self._targets.rows[target]), sized.inputs
        objective = np.repeat(sized.objective[row][None], len(tries), axis=0)
        sizes = np.repeat(sized.objective_size[row][None], len(tries), axis=0)
        for i, item in enumerate(tries):
            k, sign = item.position, 1.0
            if item.on:
                objective[i] -= item.step * sized.rows[k]
                sizes[i] += abs(item.step) * sized.row_size[k]
                sign = -1.0
            objective[i, d + k] -= sign * item.step
            sizes[i] += np.abs(objective[i])
            sizes[i, d + k] += abs(item.step)
        changed = replace(
            sized,
            objective=objective,
            objective_size=sizes,
            rounding=sized.rounding + 4 * UNIT_ROUNDOFF,
        )
        matrix = VerifiedMatrix(changed, zeta, lam)
        return bounds_from(matrix, np.arange(len(tries)), zeta, grouped)

    def _by_column(self, entries: FloatArray) -> FloatArray:
        """Bound targets of single inputs by bounds (k, d) of the gradients' entries."""
        targets = self._targets
        if not targets.whole_ball:
            return np.asarray(entries[targets.rows, targets.columns])
        rounding = 1.0 + 2.0 * UNIT_ROUNDOFF * (len(entries) + 4)
        if self._ball == "l1":
            return np.asarray(entries.sum(axis=0)[targets.columns] * rounding)
        return np.asarray(lengths(entries, axis=0)[targets.columns] * rounding)

    def sized(self, form: NodeForm) -> SizedForm:
        """Return the form with its magnitudes."""
        d, place = form.inputs, self._place[form.units]
        row_sizes, objective_sizes = self._magnitudes
        if place.size < len(row_sizes):
            columns = np.concatenate([np.arange(d), d + place])
            row_sizes = row_sizes[np.ix_(place, columns)]
            objective_sizes = objective_sizes[:, columns]
        return SizedForm(form.rows, form.objective, row_sizes, objective_sizes, d, self._rounding)

    def _sized(
        self,
        form: NodeForm,
        target: int,
        multipliers: FloatArray,
        signs: FloatArray | None = None,
    ) -> tuple[SizedForm, FloatArray, FloatArray, bool]:
        """Return a target's form, zeta, lambda, and whether all zeta are equal."""
        sized = self.sized(form)
        if self._targets.by_column:
            sized = sized.seeing(self._targets.columns[[target]])
        count, signs = form.units.size, self.joining(target, signs)
        if signs is not None and multipliers.size - count < sized.inputs:
            sized = joined_form(sized, signs)
        head, lam = multipliers[: multipliers.size - count], multipliers[multipliers.size - count :]
        grouped = self._targets.norm == "l2" and not self._targets.by_column
        d = sized.inputs
        zeta = np.full(d, head[-1]) if grouped else head[head.size - d :]
        return sized, zeta, lam, grouped
