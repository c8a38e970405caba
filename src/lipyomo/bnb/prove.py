"""Proofs of semidefinite node bounds: from floating-point multipliers to a bound that holds.

The proof is that of `lipyomo.semidefinite.verify`.  Its rounding margins need magnitudes of all
coefficients of a node's form; magnitudes with every unit at its steeper slope bound those of all
nodes, and are computed once a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.network import FloatArray
from lipyomo.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.semidefinite.reduce import ReducedForm
from lipyomo.semidefinite.verify import VerifiedMatrix, verified_bound
from lipyomo.targets import ALL, Targets


@dataclass(frozen=True)
class Exclusion:
    """A unit decision to be ruled out: open unit number `position`, switched `on` or off.

    `step` is the multiple of the decision's hyperplane to subtract from the objective.
    """

    position: int
    on: bool
    step: float


class Prover:
    """Proves bounds of one tree's nodes.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets

    Attributes
    ----------
    gradient_errors : ndarray, shape (k, d)
        Rounding errors of the functionals' gradients under any pattern.
    """

    def __init__(self, system: UnitSystem, targets: Targets) -> None:
        self._system, self._targets = system, targets
        d, n = system.inputs, system.count
        steep = np.maximum(np.abs(system.left), np.abs(system.right))
        jump = np.abs(system.right - system.left)
        self._sizes = np.zeros((n, d + n))
        signal: FloatArray = np.eye(d, d + n)
        terms = 2 * system.depth + system.network.output_dim + 6
        for i, weight in enumerate(system.weights):
            span = system.span(i)
            self._sizes[span] = np.abs(weight) @ signal
            signal = steep[span, None] * self._sizes[span]
            index = np.arange(span.start, span.stop)
            signal[index - span.start, d + index] += jump[index]
            terms += weight.shape[1] + 3
        head = np.abs(targets.functionals) @ np.abs(system.network.head.dense_weight)
        self._objective_sizes = head @ signal
        self._rounding = 2.0 * (terms + head.shape[1]) * UNIT_ROUNDOFF
        self.gradient_errors: FloatArray = self._rounding * self._objective_sizes[:, :d]
        self._positions = np.stack([system.layer_of, np.arange(n)], axis=1)

    def bound(self, form: NodeForm, target: int, multipliers: FloatArray) -> float:
        """Proved upper bound of a target on a node; infinite if the proof fails.

        Parameters
        ----------
        form : NodeForm
        target : int
        multipliers : ndarray
            (gamma if the target is a Euclidean ball, zeta, lambda).
        """
        reduced, zeta, lam, grouped = self._reduced(form, target, multipliers)
        row = int(self._targets.rows[target])
        rows = np.arange(len(form.objective)) if row == ALL else np.array([row])
        return verified_bound(reduced, rows, zeta, lam, grouped)

    def exclude(
        self, form: NodeForm, target: int, multipliers: FloatArray, tries: list[Exclusion]
    ) -> FloatArray:
        """Proved bounds of a target with one more unit decided, all from the same multipliers.

        Where ``q . w = 0``, the objective c can be replaced by ``c - step q``: q is ``e_k`` for a
        unit that is off and ``U_k - e_k`` for one that is on.

        Returns
        -------
        ndarray, shape (len(tries),)
            Infinite where the proof fails.
        """
        reduced, zeta, lam, grouped = self._reduced(form, target, multipliers)
        row, d = int(self._targets.rows[target]), reduced.inputs
        objective = np.repeat(reduced.objective[row][None], len(tries), axis=0)
        sizes = np.repeat(reduced.objective_size[row][None], len(tries), axis=0)
        for i, item in enumerate(tries):
            k, sign = item.position, 1.0
            if item.on:
                objective[i] -= item.step * reduced.rows[k]
                sizes[i] += abs(item.step) * reduced.row_size[k]
                sign = -1.0
            objective[i, d + k] -= sign * item.step
            sizes[i] += np.abs(objective[i])
            sizes[i, d + k] += abs(item.step)
        changed = replace(
            reduced,
            objective=objective,
            objective_size=sizes,
            rounding=reduced.rounding + 4 * UNIT_ROUNDOFF,
        )
        matrix = VerifiedMatrix(changed, zeta, lam)
        if not matrix.accepted:
            return np.full(len(tries), np.inf)
        tau = float(zeta.max()) if grouped else float(zeta.sum())
        root = float(np.sqrt(tau)) * (1.0 + UNIT_ROUNDOFF * (len(zeta) + 8))
        return np.array([root * matrix.quadratic(np.array([i])) for i in range(len(tries))])

    def _reduced(
        self, form: NodeForm, target: int, multipliers: FloatArray
    ) -> tuple[ReducedForm, FloatArray, FloatArray, bool]:
        """The form with its magnitudes, zeta, lambda, and whether zeta is one number."""
        column = int(self._targets.columns[target])
        d = form.inputs
        inputs = np.arange(d) if column == ALL else np.array([column])
        keep = np.concatenate([inputs, d + np.arange(form.units.size)])
        size_columns = np.concatenate([inputs, d + form.units])
        reduced = ReducedForm(
            form.rows[:, keep],
            form.objective[:, keep],
            self._sizes[np.ix_(form.units, size_columns)],
            self._objective_sizes[:, size_columns],
            self._positions[form.units],
            inputs.size,
            self._rounding,
        )
        count = form.units.size
        head, lam = multipliers[: multipliers.size - count], multipliers[multipliers.size - count :]
        grouped = self._targets.input_norm == "l2" and column == ALL
        zeta = np.full(inputs.size, head[-1]) if grouped else head[head.size - inputs.size :]
        return reduced, zeta, lam, grouped
