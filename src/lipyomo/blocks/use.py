"""Whether one-sided values are used on the side where they mean something.

The value of a hypograph stays at or below a norm, that of an epigraph at or above it.  Minimising
the one, or bounding it from above, says nothing about the norm, and silently so.  A variable that
an equation makes a copy of such a value is held to the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyomo.environ as pyo
from pyomo.common.collections import ComponentMap
from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr.calculus.derivatives import Modes, differentiate
from pyomo.core.expr.calculus.diff_with_pyomo import DifferentiationException
from pyomo.core.expr.visitor import identify_variables
from pyomo.repn import generate_standard_repn

from lipyomo.base.errors import ProblemError
from lipyomo.base.tolerances import EXACT_TOLERANCE
from lipyomo.blocks.ranges import ends_of

Sense: TypeAlias = Literal["max", "min"]


class OneSidedWarning(UserWarning):
    """A one-sided value is bounded on the side where it means nothing."""


@dataclass(frozen=True)
class OneSided:
    """A variable that means something only where it is made large, or small.

    Attributes
    ----------
    variable : VarData
    sense : {'max', 'min'}
    end : float
        How far the block itself lets it go: at most so much (``max``), or at least (``min``).
    strict : bool
        Whether it is an error, not a warning, to bound the variable on the other side.
    through : ConstraintData, optional
        The equality that makes the variable a copy of such a value.
    """

    variable: Any
    sense: Sense
    end: float
    strict: bool = False
    through: Any = None

    @property
    def sign(self) -> int:
        """Direction in which the variable means something."""
        return 1 if self.sense == "max" else -1

    @property
    def remedy(self) -> str:
        """What to take where the other side is meant."""
        return _REMEDIES[self.sense, self.strict]


_MEANS = {
    "max": ("below", "minimised", "from above", "large"),
    "min": ("above", "maximised", "from below", "small"),
}

_REMEDIES = {
    ("max", True): "an UpperLipschitzBlock, whose value stays above the constant",
    ("min", True): "a LipschitzBlock, whose value stays below the constant",
    ("max", False): "a NormBlock with sense='min', or sense='both'",
    ("min", False): "a NormBlock with sense='max', or sense='both'",
}
"""What has a value on the other side, by sense and strictness: only Lipschitz blocks are strict."""


def check_use(root: Any, solved: bool = True) -> None:
    """Check what a model does with the one-sided values of its blocks.

    Parameters
    ----------
    root : BlockData
        Its constraints are walked once, whatever the number of blocks.
    solved : bool, optional
        Whether the model is to be solved; else what is wrong with it is a warning: its rows may be
        counted and printed.

    Raises
    ------
    ProblemError
        If the objective asks for the other side, or a Lipschitz constant is bounded there.

    Warns
    -----
    OneSidedWarning
        If another norm is bounded there, or if it cannot be told what a term asks for.
    """
    try:
        _check(root)
    except ProblemError as error:
        if solved:
            raise
        warnings.warn(str(error), OneSidedWarning, stacklevel=2)


def _check(root: Any) -> None:
    waiting = [
        value
        for block in root.block_data_objects(active=True)
        if not getattr(block, "_owned", True)
        for value in block._one_sided
    ]
    uses = _Uses(root)
    known = ComponentMap((value.variable, value) for value in waiting)
    while waiting:
        value = waiting.pop()
        _check_bounds(value, uses)
        _check_objectives(value, uses)
        for copy in _check_constraints(value, uses, known):
            known[copy.variable] = copy
            waiting.append(copy)


def _check_bounds(value: OneSided, uses: _Uses) -> None:
    """Complain if the variable is fixed or bounded more narrowly than constraints imply.

    What transformations derive from the constraints, as Pyomo's ``fbbt`` does, is no complaint.
    """
    variable, sign = value.variable, value.sign
    low, high = ends_of(*variable.bounds)
    bound = sign * float(variable.value) if variable.fixed else high if sign > 0 else -low
    slack = EXACT_TOLERANCE * max(1.0, abs(bound))
    if bound >= sign * value.end - slack:
        return
    rows = [form for form in uses.of(variable) if form.constraint is not value.through]
    rows += [
        _Form.of(row.body, row)
        for block in variable.parent_block().block_data_objects(active=True)
        for rows_of in block.component_map(pyo.Constraint).values()
        for row in rows_of.values()
        if row.active
    ]
    if bound < min((form.implied(variable, sign) for form in rows), default=np.inf) - slack:
        kind = "a fixed value" if variable.fixed else "a bound of its own"
        _complain(value, kind, value.through is None)


def _check_objectives(value: OneSided, uses: _Uses) -> None:
    """Complain of an objective that asks for the other side."""
    stays, wrong, _, _ = _MEANS[value.sense]
    for objective, form in uses.objectives:
        weight = form.weight(value.variable)
        sign = value.sign if objective.sense == pyo.maximize else -value.sign
        if weight is None:
            _complain(value, f"the objective '{objective.name}'", False)
        elif weight * sign < 0:
            raise ProblemError(
                f"'{value.variable.name}' is {wrong}, but it only stays {stays} the norm, so "
                f"that says nothing about the norm.  Remedy: {value.remedy}"
            )


def _check_constraints(value: OneSided, uses: _Uses, known: ComponentMap) -> list[OneSided]:
    """Complain of constraints that bind the other side; return copies, so far unknown.

    The other variable of a linear equality in two is a copy.  With more of them, it is those by
    which the objective draws the value to the side where it means something.
    """
    copies: list[OneSided] = []
    variable, sign = value.variable, value.sign
    for form in uses.of(variable):
        if form.constraint is value.through or not form.binds(variable, sign):
            continue
        if not form.constraint.equality or len(form.weights) == 1:
            certain = form.weight(variable) is not None
            _complain(value, f"'{form.constraint.name}'", certain)
            continue
        alias = form.alias(value)
        if alias is not None and alias.variable not in known:
            copies.append(alias)
        elif alias is None and uses.drawn(variable) == {sign}:
            copies += [
                OneSided(v, "max" if s > 0 else "min", s * np.inf, value.strict, form.constraint)
                for v, s in uses.drawn_by(form)
                if v not in known
            ]
        else:
            _complain(value, f"'{form.constraint.name}'", False)
    return copies


def _complain(value: OneSided, what: str, certain: bool) -> None:
    """Raise or warn: something binds a value on the side where it means nothing."""
    stays, _, side, size = _MEANS[value.sense]
    said = (
        f"{what} binds '{value.variable.name}' {side}, but that only stays {stays} the norm: "
        "this says nothing about the norm unless something else makes the value "
        f"{size}.  Remedy: {value.remedy}"
    )
    if value.strict and certain:
        raise ProblemError(said)
    warnings.warn(said, OneSidedWarning, stacklevel=2)


@dataclass
class _Form:
    """An expression by its variables, with the signs of its derivatives.

    Attributes
    ----------
    weights : ComponentMap
        By variable the coefficient if the expression is linear, otherwise the sign of the
        derivative within the variables' bounds: -1, 0, 1, or None if it changes.
    linear : bool
    constant : float
        Of a linear expression.
    constraint : ConstraintData, optional
        Whose body it is.
    """

    weights: ComponentMap
    linear: bool
    constant: float = 0.0
    constraint: Any = None

    @classmethod
    def of(cls, expression: Any, constraint: Any = None) -> _Form:
        """Read an expression."""
        form = generate_standard_repn(expression, compute_values=True, quadratic=False)
        if form.is_linear():
            weights = ComponentMap(zip(form.linear_vars, form.linear_coefs, strict=True))
            return cls(weights, True, float(form.constant), constraint)
        variables = list(identify_variables(expression, include_fixed=False))
        return cls(ComponentMap(_signs(expression, variables)), False, 0.0, constraint)

    def weight(self, variable: Any) -> float | None:
        """Coefficient or sign; 0 for a variable that is not there, None if it is not known."""
        found: float | None = self.weights.get(variable, 0.0)
        return found

    def binds(self, variable: Any, sign: int) -> bool:
        """Whether the constraint may keep ``sign * variable`` from growing."""
        weight, (low, high) = self.weight(variable), self._range
        up, down = high > self.ends[1], low < self.ends[0]
        if weight is None:
            return up or down
        return (up and weight * sign > 0) or (down and weight * sign < 0)

    def implied(self, variable: Any, sign: int) -> float:
        """How large ``sign * variable`` can be by the constraint and the others' bounds."""
        weight = self.weight(variable)
        if not self.linear or not weight:
            return np.inf
        total = ((self.ends[1] if weight * sign > 0 else self.ends[0]) - self.constant) / weight
        for other, own in self.weights.items():
            if other is not variable:
                low, high = ends_of(*other.bounds)
                total -= min(sign * own / weight * end for end in (low, high)) * sign
        return float(sign * total)

    @property
    def ends(self) -> tuple[float, float]:
        """What the constraint allows."""
        return ends_of(self.constraint.lb, self.constraint.ub)

    @cached_property
    def _range(self) -> tuple[float, float]:
        return ends_of(*compute_bounds_on_expr(self.constraint.body))

    def alias(self, value: OneSided) -> OneSided | None:
        """What a linear equality in two variables makes of the other one."""
        if not self.linear or len(self.weights) != 2:
            return None
        own = self.weights[value.variable]
        ((other, weight),) = (
            pair for pair in self.weights.items() if pair[0] is not value.variable
        )
        slope = -own / weight
        end = slope * value.end + (self.ends[1] - self.constant) / weight
        sense: Sense = value.sense if slope > 0.0 else "min" if value.sign > 0 else "max"
        return OneSided(other, sense, end, value.strict, self.constraint)


def _signs(expression: Any, variables: list[Any]) -> Iterator[tuple[Any, float | None]]:
    """The signs of the derivatives of an expression, within the bounds of its variables."""
    try:
        slopes = differentiate(expression, wrt_list=variables, mode=Modes.reverse_symbolic)
    except DifferentiationException:
        slopes = [None] * len(variables)
    for variable, slope in zip(variables, slopes, strict=True):
        low, high = (None, None) if slope is None else compute_bounds_on_expr(slope)
        low, high = ends_of(low, high)
        yield variable, 1.0 if low >= 0.0 < high else -1.0 if high <= 0.0 > low else None


class _Pulls(NamedTuple):
    """Where the objective of a model draws variables.

    Attributes
    ----------
    variables : set of (int, int)
        Ids of variables, with directions.
    sources : dict of int to list of (VarData, int)
        By id of a form, the variables with directions by which its others are drawn.
    """

    variables: set[tuple[int, int]]
    sources: dict[int, list[tuple[Any, int]]]


class _Uses:
    """The objectives of a model and the constraints that are not part of this package's blocks."""

    def __init__(self, root: Any) -> None:
        found = root.component_data_objects(pyo.Objective, active=True)
        self.objectives = [(objective, _Form.of(objective.expr)) for objective in found]
        self._forms: dict[int, list[_Form]] = {}
        for constraint in _foreign_constraints(root):
            form = _Form.of(constraint.body, constraint)
            for variable in form.weights:
                self._forms.setdefault(id(variable), []).append(form)

    def of(self, variable: Any) -> list[_Form]:
        """The constraints that hold a variable."""
        return self._forms.get(id(variable), [])

    def drawn(self, variable: Any) -> set[int]:
        """Directions in which the objective draws a variable, also through constraints."""
        return {sign for sign in (1, -1) if (id(variable), sign) in self._pulls.variables}

    def drawn_by(self, form: _Form) -> list[tuple[Any, int]]:
        """Variables, with directions, by which the objective draws those of a constraint."""
        return self._pulls.sources.get(id(form), [])

    @cached_property
    def _pulls(self) -> _Pulls:
        """Where the objective draws variables, from its own ones on through constraints."""
        sources: dict[int, list[tuple[Any, int]]] = {}
        waiting: list[tuple[Any, int, _Form | None]] = []
        for objective, form in self.objectives:
            sign = 1 if objective.sense == pyo.maximize else -1
            waiting += [(v, int(sign * np.sign(w)), None) for v, w in form.weights.items() if w]
        found: set[tuple[int, int]] = set()
        spread: dict[tuple[int, int], Any] = {}
        while waiting:
            variable, sign, through = waiting.pop()
            if (id(variable), sign) in found:
                continue
            found.add((id(variable), sign))
            for form in self.of(variable):
                weight = form.weight(variable)
                if form is through or not weight or not form.binds(variable, sign):
                    continue
                sources.setdefault(id(form), []).append((variable, sign))
                # All others have to make room; for a second variable, the first one has to as well.
                turn = -int(sign * np.sign(weight))
                first = spread.get((id(form), turn))
                spread[id(form), turn] = variable
                items = form.weights.items() if first is None else [(first, form.weights[first])]
                waiting += [
                    (other, int(turn * np.sign(w)), form)
                    for other, w in items
                    if w and other is not variable
                ]
        return _Pulls(found, sources)


def _foreign_constraints(root: Any) -> Iterator[Any]:
    """The active constraints that neither this package's blocks nor transformations have written.

    Those that users have put under such a block are among them.
    """
    own: set[int] = set()
    inside: set[int] = set()
    for block in root.block_data_objects(active=True):
        if hasattr(block, "_written"):
            own |= block._written.ids()
            inside |= block._written.transformed_ids()
        if id(block.parent_component()) in inside:
            inside |= {id(part) for part in block.component_objects(pyo.Block, descend_into=False)}
            continue
        for rows in block.component_objects(pyo.Constraint, active=True, descend_into=False):
            if id(rows) not in own:
                yield from (row for row in rows.values() if row.active)
