"""Joining of inputs whose partial derivatives have a fixed sign.

For linf the steepest direction of a functional is the sign of its gradient.  Where a partial
derivative has the same sign ``s_j`` under all patterns, ``v_j = s_j v_0`` loses nothing, so all
such inputs are joined to one column, ``sum_j s_j U_j``, of the tangents.  On small balls few inputs
remain, the matrices become smaller, and the bound can only become tighter.  At nodes of a search,
where fewer patterns are possible, more signs are fixed.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.linear.gradient import gradient_ranges
from lipyomo.relaxations.semidefinite.verify import SizedForm


class FixedSigns:
    """Fixed signs of the partial derivatives of targets under some phases.

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
        """Return signs (d,), zero where both may occur; None if no inputs are joined."""
        row = int(self._targets.rows[target])
        if self._stay_apart:
            return None
        if row not in self._known:
            phases = self._system.split(self._phases)
            functional = self._targets.functionals[[row]]
            low, high = gradient_ranges(self._system.tangents, phases, functional)
            signs = _signs(low[0], high[0], self._errors[row])
            free = int(np.count_nonzero(signs == 0))
            self._known[row] = signs if free + 1 < signs.size else None
        return self._known[row]

    def within(self, form: NodeForm, target: int, known: FloatArray | None) -> FloatArray | None:
        """Return signs under the phases of a form, in addition to those `known`.

        Adjoints are bounded by intervals, from the last unstable units to the inputs.
        """
        if self._stay_apart:
            return None
        row = int(self._targets.rows[target])
        low = form.objective[row].copy()
        high = low.copy()
        layers, d = self._system.layer_of[form.units], form.inputs
        for layer in np.unique(layers)[::-1]:
            here = np.flatnonzero(layers == layer)
            least, most = np.minimum(low[d + here], 0.0), np.maximum(high[d + here], 0.0)
            up = np.maximum(form.rows[here], 0.0)
            down = form.rows[here] - up
            low += least @ up + most @ down
            high += most @ up + least @ down
        room = 3.0 * self._errors[row]  # the sums above have as many terms, each twice
        signs = _signs(low[:d], high[:d], room)
        if known is not None:
            signs = np.where(known != 0, known, signs)
        return signs if np.count_nonzero(signs) > 1 else None

    @property
    def _stay_apart(self) -> bool:
        """Whether inputs cannot be joined: not linf, or a ball of functionals."""
        return self._targets.norm != "linf" or self._targets.whole_ball


def _signs(low: FloatArray, high: FloatArray, room: float) -> FloatArray:
    """Return the signs of numbers between two ends, up to errors `room`; zero if both occur."""
    return np.where(low > room, 1.0, np.where(high < -room, -1.0, 0.0))


def in_free_inputs(matrix: FloatArray, signs: FloatArray) -> FloatArray:
    """Convert rows over ``(v, s)`` to rows over ``(v_0, free inputs, s)``."""
    d, fixed = signs.size, signs != 0
    together = matrix[:, :d][:, fixed] @ signs[fixed]
    return np.hstack([together[:, None], matrix[:, :d][:, ~fixed], matrix[:, d:]])


def joined_multipliers(
    zeta: FloatArray, signs: FloatArray, known: FloatArray | None = None
) -> FloatArray:
    """Convert multipliers of the inputs to those of ``(v_0, free inputs)``, which leaves C as is.

    The inputs may be joined already, by the signs `known`.
    """
    if known is None:
        return np.concatenate([[zeta[signs != 0].sum()], zeta[signs == 0]])
    still = signs[known == 0] == 0
    return np.concatenate([[zeta[0] + zeta[1:][~still].sum()], zeta[1:][still]])


def joined_form(form: SizedForm, signs: FloatArray) -> SizedForm:
    """Return a form with the inputs of fixed sign joined, including the rounding of the sums."""
    size = np.abs(signs)
    return SizedForm(
        in_free_inputs(form.rows, signs),
        in_free_inputs(form.objective, signs),
        in_free_inputs(form.row_size, size),
        in_free_inputs(form.objective_size, size),
        1 + int(np.count_nonzero(signs == 0)),
        form.rounding + (signs.size + 8) * 2.0**-52,
    )
