r"""The dual ball of a linear norm as a Pyomo block: the functionals y with ``y . f <= |f|``.

- l1: the cube ``-1 <= y <= 1``.
- cross: conv{+-e_i, e_i - e_j}, lifted: y = p - q with p, q >= 0, ``sum p <= 1, sum q <= 1``.
- cross(i): conv{e_i - e_j, e_i}: y_i = 1 and the others ``-q_j`` with q >= 0, ``sum q <= 1``.
- linf, user-given: y = V^T w with w in the unit simplex, or ``A y <= b``.

Sources: LipMIP, sections 5 and E.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.arguments import one_of, whole_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.blocks.assemble import add_equalities, add_forms_below, add_variables
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.problems.norms import OutputNorm, output_norm_of
from lipyomo.solvers.rows import Forms, Rows


@formulation_block()
class DualBallBlockData(FormulationBlockData):
    """A functional that ranges over a dual ball.

    After `build_formulation` the block has ``functional[k]`` and the lifted variables: ``plus``,
    ``minus`` or ``weight``.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo.blocks import DualBallBlock
    >>> m = pyo.ConcreteModel()
    >>> m.ball = DualBallBlock()
    >>> m.ball.build_formulation(3, "cross")
    >>> y = m.ball.functional
    >>> m.largest = pyo.Objective(expr=y[0] - 2 * y[1] - y[2], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.largest), 6)
    3.0
    """

    _RESULT = "functional"
    functional: Any
    plus: Any
    minus: Any
    weight: Any

    @staticmethod
    def _is_subject(given: Any) -> bool:
        return isinstance(given, int | np.integer)

    def build_formulation(
        self, size: int, norm: str | OutputNorm = "linf", *, half: bool = False
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        size : int
            Number of outputs m.
        norm : {'linf', 'l1', 'cross', 'cross(i)'} or OutputNorm, optional
        half : bool, optional
            Leave out one of each pair +-y of vertices where that is simple, which is sufficient and
            faster if the maximised function does not depend on the sign of y.

        Raises
        ------
        NormError
            If the norm is not linear or does not fit the size.
        """
        whole_number(size, "size", ProblemError, 1)
        one_of(half, (True, False), "value of half", ProblemError)
        chosen = output_norm_of(norm)
        chosen.check(size)
        if chosen.kind == "l1":
            low = np.full(size, -1.0)
            low[-1] = 1.0 if half else -1.0
            add_variables(self, "functional", range(size), low, np.ones(size))
        elif chosen.kind == "cross":
            self._add_cross(size)
        elif chosen.label is not None and half:
            self._add_margin(size, chosen.label)
        else:
            self._add_general(size, chosen, half)

    def _add_functional(self, reach_low: FloatArray, reach_high: FloatArray) -> list[Any]:
        return add_variables(self, "functional", range(reach_low.size), reach_low, reach_high)

    def _add_cross(self, size: int) -> None:
        """``y = p - q`` with p and q in simplices."""
        keys, one = range(size), np.ones(size)
        p = add_variables(self, "plus", keys, 0.0 * one, one)
        q = add_variables(self, "minus", keys, 0.0 * one, one)
        forms = Forms.of(p + q).map(np.hstack([np.eye(size), -np.eye(size)]))
        add_equalities(self, "difference", keys, self._add_functional(-one, one), forms)
        rows = Rows(self, "simplex", [0, 1])
        rows.at_most(0, [1.0] * size, p, 1.0)
        rows.at_most(1, [1.0] * size, q, 1.0)

    def _add_margin(self, size: int, label: int) -> None:
        """``y_label = 1``, the other entries in the negative of a simplex."""
        high = np.where(np.arange(size) == label, 1.0, 0.0)
        low = np.where(np.arange(size) == label, 1.0, -1.0)
        y = self._add_functional(low, high)
        others = [item for k, item in enumerate(y) if k != label]
        if others:
            Rows(self, "simplex", [0]).at_least(0, [1.0] * len(others), others, -1.0)

    def _add_general(self, size: int, norm: OutputNorm, half: bool) -> None:
        """Inequalities if these are fewer than vertices, otherwise the hull of the vertices."""
        vertices, rows = norm.vertices(size), norm.inequalities(size)
        if vertices is None:
            raise NormError(
                f"the dual ball of {norm.name} is not a polytope of reasonable size.  "
                "Remedy: l1, linf, cross, cross(i), or a LinearOutput"
            )
        few = rows is not None and len(rows[1]) < len(vertices)
        if rows is not None and few and (half or _symmetric(vertices)):
            reach = np.abs(vertices).max(axis=0)
            y = self._add_functional(-reach, reach)
            add_forms_below(self, "inequality", Forms.of(y).map(rows[0]), rows[1])
            return
        points = vertices if half else np.unique(np.vstack([vertices, -vertices]), axis=0)
        count = len(points)
        y = self._add_functional(points.min(axis=0), points.max(axis=0))
        w = add_variables(self, "weight", range(count), np.zeros(count), np.ones(count))
        add_equalities(self, "hull", range(size), y, Forms.of(w).map(points.T))
        Rows(self, "simplex", [0]).equal(0, [1.0] * count, w, 1.0)


def _symmetric(vertices: FloatArray) -> bool:
    """Return whether the negative of each vertex is a vertex, up to rounding."""
    gaps = np.abs(vertices[:, None, :] + vertices[None, :, :]).max(axis=-1)
    return bool((gaps.min(axis=1) <= EQUAL * np.abs(vertices).max()).all())
