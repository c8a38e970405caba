r"""Norms of variables, and the dual balls of linear norms, as Pyomo blocks.

A norm is an epigraph, a hypograph, or exact.  For |g| = sum_k |g_k| (l1) and |g| = max_v |v . g|
over the vertices v of a dual ball (linf, user given):

- ``min``, the epigraph ``value >= |g|``: linear, no binaries.
- ``max``, the hypograph ``value <= |g|``: a binary for each entry of undecided sign (l1), or one
  for each vertex that can attain the maximum, exactly one of which is chosen (LipMIP, eq. 117, with
  its minimum corrected).
- ``both``: ``value == |g|``.

The Euclidean norm has an epigraph only, a second-order cone ``sum_k g_k^2 <= value^2``.

The dual ball consists of the functionals y with ``y . f <= |f|``:

- l1: the cube ``-1 <= y <= 1``.
- cross: conv{+-e_i, e_i - e_j}, lifted: y = p - q with p, q >= 0, ``sum p <= 1, sum q <= 1``.
- cross(i): conv{e_i - e_j, e_i}: y_i = 1 and the others ``-q_j`` with q >= 0, ``sum q <= 1``.
- linf, user-given: y = V^T w with w in the unit simplex, or ``A y <= b``.

Sources: LipMIP, sections 5 and E.2.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import pyomo.environ as pyo

from lipyomo.base.arguments import one_of, whole_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.blocks.assemble import (
    add_equalities,
    add_forms_below,
    add_sizes,
    add_value,
    add_variables,
)
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.inputs import holds_variables, variables_of
from lipyomo.blocks.labels import Labels, refer
from lipyomo.blocks.use import OneSided
from lipyomo.problems.norms import OutputNorm, output_norm_of
from lipyomo.solvers.rows import Forms, Rows
from lipyomo.solvers.variables import box_of, ends_of, set_bounds

Sense: TypeAlias = Literal["max", "min", "both"]


@formulation_block()
class NormBlockData(FormulationBlockData):
    """``value``, which is at most, at least or equal to a norm of given variables.

    After `build_formulation` the block has ``value``, ``inputs[k]`` (the given variables) and the
    binaries, if any: ``sign[k]`` (l1; 1 where the entry counts as positive) or ``choice[k]`` (which
    signed vertex attains the norm; vertex k mod K, negated for k >= K).

    Notes
    -----
    With ``max`` (``min``), `value` is only meaningful if it is maximised or bounded from below
    (minimised or bounded from above).  The opposite objective is an error when the model is solved;
    a bound, a fixed value or a constraint on the wrong side is a warning.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo.blocks import NormBlock
    >>> m = pyo.ConcreteModel()
    >>> m.g = pyo.Var([0, 1], bounds=(-2, 1))
    >>> m.size = NormBlock()
    >>> m.size.build_formulation(m.g, "l1", sense="max")
    >>> m.largest = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("lipyomo_highs").solve(m)
    >>> round(pyo.value(m.size.value), 6)
    4.0
    """

    value: Any
    inputs: Any
    magnitude: Any
    sign: Any
    choice: Any

    @staticmethod
    def _is_subject(given: Any) -> bool:
        return holds_variables(given)

    def build_formulation(
        self,
        inputs: Any,
        norm: str | OutputNorm = "linf",
        *,
        sense: Sense = "both",
        one_sided: bool = False,
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        inputs : Var, sequence of n variables, or block
            Of a `GradientBlock` its gradient, of a `ReluNetworkBlock` its outputs, and so on.
        norm : {'l1', 'l2', 'linf', 'cross', 'cross(i)'} or OutputNorm, optional
            Any linear norm; l2 for ``min`` only, and for solvers that support second-order cones
            (Gurobi, CPLEX, SCIP).
        sense : {'max', 'min', 'both'}, optional
        one_sided : bool, optional
            For ``max`` only: ``value <= max_v v . g`` without the negated vertices, which is
            sufficient if both g and -g are feasible, as for directional derivatives, and saves half
            of the choices.

        Raises
        ------
        NormError
            If the norm is neither linear nor l2 with ``min``, or the sense is unknown.
        BoundsMissing
            If binaries are needed and a variable has no bounds.
        """
        one_of(sense, ("max", "min", "both"), "sense of a norm", NormError)
        one_of(one_sided, (True, False), "value of one_sided", ProblemError)
        chosen = output_norm_of(norm)
        keys, variables = variables_of(self, "inputs", inputs, "inputs of a norm")
        if not variables:
            raise ProblemError("a norm needs at least one input")
        chosen.check(len(variables))
        self._rely_on_bounds(variables)
        refer(self, "inputs", variables, Labels.of(keys, (len(keys),)))
        add_value(self)
        if chosen.dual_ball == "cube":
            self._build_sum(variables, sense, one_sided)
        elif chosen.dual_ball == "round" and sense == "min":
            self._build_cone(variables)
        else:
            vertices = chosen.vertices(len(variables))
            if vertices is None:
                raise NormError(
                    f"the norm {chosen.name} over {len(variables)} entries is not linear.  "
                    "Remedy: l1, linf, cross, cross(i), a LinearOutput, or l2 with sense='min'"
                )
            self._build_choice(variables, vertices, sense, one_sided and sense == "max")
        low, high = ends_of(*self.value.bounds)
        if sense != "both":
            sign, end = (1, high) if sense == "max" else (-1, low)
            self._record.one_sided.append(OneSided(self.value, sign, end))

    def _build_sum(self, variables: list[Any], sense: Sense, one_sided: bool) -> None:
        """The l1 norm as a sum of p_k for ``|g_k|``; ``p_k <= |g_k|`` is added unless minimised."""
        box = box_of(variables, finite=sense != "min")
        low, high = box.lower, box.upper
        mixed = np.flatnonzero((low < 0) & (high > 0)).tolist()
        reach = np.maximum(-low, high)
        coefs, terms = np.where(low >= 0, -1.0, 1.0).tolist(), list(variables)
        inner = [variables[k] for k in mixed]
        if sense == "max":
            magnitude = add_variables(self, "magnitude", mixed, np.zeros(len(mixed)), reach[mixed])
        else:
            magnitude = add_sizes(self, "magnitude", mixed, inner, reach[mixed])
        for k, p in zip(mixed, magnitude, strict=True):
            coefs[k], terms[k] = -1.0, p
        if sense != "min":
            sign = add_variables(self, "sign", mixed, binary=True)
            sides = [(k, side) for k in mixed for side in (1, -1)]
            below = Rows(self, "magnitude_below", sides)
            for k, g, p, a in zip(mixed, inner, magnitude, sign, strict=True):
                down, up = -2.0 * float(low[k]), 2.0 * float(high[k])
                below.at_most((k, 1), [1.0, -1.0, down], [p, g, a], down)
                below.at_most((k, -1), [1.0, 1.0, -up], [p, g, a], 0.0)
            if one_sided and len(mixed) == len(variables) and mixed:
                sign[0].fix(1)
        top = float(np.maximum(reach, 0.0).sum()) * (1.0 + EQUAL)
        set_bounds(self.value, -top if one_sided else 0.0, top)
        rows = Rows(self, "sum", [0])
        compare = {"both": rows.equal, "max": rows.at_most, "min": rows.at_least}[sense]
        compare(0, [*coefs, 1.0], [*terms, self.value], 0.0)

    def _build_cone(self, variables: list[Any]) -> None:
        """The epigraph of the Euclidean norm."""
        box = box_of(variables, finite=False)
        top = float(np.hypot.reduce(np.maximum(np.abs(box.lower), np.abs(box.upper))))
        set_bounds(self.value, 0.0, top * (1.0 + EQUAL))
        squares = sum(variable**2 for variable in variables)
        self.cone = pyo.Constraint(expr=squares <= self.value**2)

    def _build_choice(
        self, variables: list[Any], vertices: FloatArray, sense: Sense, one_sided: bool
    ) -> None:
        """The largest product with a vertex, which is selected by binaries unless minimised."""
        signed = vertices if one_sided else np.vstack([vertices, -vertices])
        forms = Forms.of(variables).map(signed)
        box = box_of(variables, finite=sense != "min")
        rows = list(forms.rows())
        keys = range(len(signed))
        highs, lows = box.support(signed), -box.support(-signed)
        top = float(highs.max()) + EQUAL * float(np.abs(highs).max())
        set_bounds(self.value, -top if one_sided else 0.0, top)
        if sense != "max":
            above = Rows(self, "value_above", keys)
            for k, (coefs, columns) in enumerate(rows):
                above.at_least(k, [*(-c for c in coefs), 1.0], [*columns, self.value], 0.0)
        if sense == "min":
            return
        floor = float(np.where(np.isfinite(lows), lows, -np.inf).max())
        able = np.flatnonzero(highs >= floor).tolist()
        below = Rows(self, "value_below", keys)
        if len(able) == 1:
            coefs, columns = rows[able[0]]
            below.at_most(able[0], [*(-c for c in coefs), 1.0], [*columns, self.value], 0.0)
            return
        choice = add_variables(self, "choice", able, binary=True)
        for k, a in zip(able, choice, strict=True):
            coefs, columns = rows[k]
            big = top - float(lows[k])
            below.at_most(k, [*(-c for c in coefs), 1.0, big], [*columns, self.value, a], big)
        Rows(self, "one_choice", [0]).equal(0, [1.0] * len(choice), choice, 1.0)


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
