"""Inputs whose partial derivative keeps its sign move together.

For linf the steepest direction of a functional is the sign of its gradient.  Where a partial
derivative has one sign ``s_j`` under all patterns, ``v_j = s_j v_0`` loses nothing, so that all
such inputs become one column, ``sum_j s_j U_j``, of the tangents.  On small balls few inputs
remain, the matrices shrink with them, and the bound can only become tighter.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.problems.targets import ALL, Targets
from lipyomo.relaxations.linear.gradient import gradient_ranges
from lipyomo.relaxations.semidefinite.verify import SizedForm


class FixedSigns:
    """The signs that the partial derivatives of targets keep under some phases.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    phases : ndarray of int8, shape (N,)
    errors : ndarray, shape (k, d)
        Rounding errors of the functionals' gradients.
    """

    def __init__(
        self, system: UnitSystem, targets: Targets, phases: FlatPhases, errors: FloatArray
    ) -> None:
        self._system, self._targets, self._phases = system, targets, phases
        self._errors = errors
        self._known: dict[int, FloatArray | None] = {}

    def of(self, target: int) -> FloatArray | None:
        """Signs (d,) with zeros where both occur; None where inputs stay apart."""
        row, targets = int(self._targets.rows[target]), self._targets
        if targets.norm != "linf" or row == ALL or targets.columns[target] != ALL:
            return None
        if row not in self._known:
            phases = self._system.split(self._phases)
            functional = targets.functionals[[row]]
            low, high = gradient_ranges(self._system.tangents, phases, functional)
            room = self._errors[row]
            signs = np.where(low[0] > room, 1.0, np.where(high[0] < -room, -1.0, 0.0))
            free = int(np.count_nonzero(signs == 0))
            self._known[row] = signs if free + 1 < signs.size else None
        return self._known[row]


def joined(matrix: FloatArray, signs: FloatArray) -> FloatArray:
    """Rows in ``(v, s)`` as rows in ``(v_0, free inputs, s)``."""
    d, fixed = signs.size, signs != 0
    together = matrix[:, :d][:, fixed] @ signs[fixed]
    return np.hstack([together[:, None], matrix[:, :d][:, ~fixed], matrix[:, d:]])


def joined_multipliers(zeta: FloatArray, signs: FloatArray) -> FloatArray:
    """Multipliers of the inputs (d,) as those of ``(v_0, free inputs)``: C stays as it is there."""
    return np.concatenate([[zeta[signs != 0].sum()], zeta[signs == 0]])


def joined_form(form: SizedForm, signs: FloatArray) -> SizedForm:
    """A form with the inputs of fixed sign as one, the sums' rounding included."""
    size = np.abs(signs)
    return SizedForm(
        joined(form.rows, signs),
        joined(form.objective, signs),
        joined(form.row_size, size),
        joined(form.objective_size, size),
        1 + int(np.count_nonzero(signs == 0)),
        form.rounding + (signs.size + 8) * 2.0**-52,
    )
