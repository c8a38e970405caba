"""The components that a block has written into a model, and users' changes to them.

A rebuild removes all of them and builds them again, with the same objects where possible, so that
users' constraints keep their meaning.  Users' own bounds and fixed values are kept, and so are
components that they have added to the block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyomo.environ as pyo
from pyomo.core.base.componentuid import ComponentUID
from pyomo.gdp import Disjunct

from lipyomo.base.errors import ProblemError
from lipyomo.solvers.variables import ends_of, is_variable, set_bounds

Ends: TypeAlias = tuple[float, float]

_ANYTHING: Ends = (-np.inf, np.inf)


@dataclass(frozen=True)
class Users:
    """Bounds and values that users have set on variables of a block, by component path.

    Attributes
    ----------
    limits : dict
        Bounds.
    fixed : dict
        Values.
    """

    limits: dict[Any, Ends] = field(default_factory=dict)
    fixed: dict[Any, Any] = field(default_factory=dict)

    def hold(self, block: Any) -> None:
        """Apply the bounds, where narrower, and the fixed values to existing variables."""
        for place, (least, most) in self.limits.items():
            variable = place.find_component_on(block)
            if variable is not None:
                low, high = ends_of(*variable.bounds)
                set_bounds(variable, max(low, least), min(high, most))
        for place, value in self.fixed.items():
            variable = place.find_component_on(block)
            if variable is not None:
                variable.fix(value)


@dataclass(frozen=True)
class WrittenParts:
    """The components written by a block and its parts, and the state of their variables.

    Attributes
    ----------
    components : list of (BlockData, Component)
        Outer ones first.
    left : list of (VarData, (float, float), bool)
        Variables with their bounds, and whether the block has fixed them.
    users : Users
        Users' previous changes.
    """

    components: list[tuple[Any, Any]] = field(default_factory=list)
    left: list[tuple[Any, Ends, bool]] = field(default_factory=list)
    users: Users = field(default_factory=Users)

    @classmethod
    def under(cls, block: Any, foreign: Collection[int], users: Users) -> WrittenParts:
        """Collect the components under a block except `foreign` ones."""
        found = [(at, item) for at, item in components_of(block) if id(item) not in foreign]
        own = [v for _, item in found for v in _variables_of(item) if v.fixed]
        users.hold(block)
        theirs = {id(place.find_component_on(block)) for place in users.fixed}
        fixed = {id(variable) for variable in own} - theirs
        left = [
            (variable, ends_of(*variable.bounds), id(variable) in fixed)
            for _, item in found
            for variable in _variables_of(item)
        ]
        return cls(found, left, users)

    def changed(self, block: Any) -> Users:
        """Return users' changes, previous and new ones."""
        found = Users()
        for variable, left, was_fixed in self.left:
            place = ComponentUID(variable, context=block)
            low, high = self.users.limits.get(place, _ANYTHING)
            ends = ends_of(*variable.bounds)
            limit = low if ends[0] == left[0] else ends[0], high if ends[1] == left[1] else ends[1]
            if limit != _ANYTHING:
                found.limits[place] = limit
            if variable.fixed and not was_fixed:
                found.fixed[place] = variable.value
        return found

    def transformed(self) -> list[tuple[Any, Any]]:
        """Return the components into which the disjuncts were transformed, in the same blocks."""
        owners = {id(block) for block, _ in self.components}
        found: dict[int, tuple[Any, Any]] = {}
        for _, item in self.components:
            for disjunct in item.values() if item.ctype is Disjunct else ():
                made = disjunct.transformation_block
                around = None if made is None else made.parent_block()
                if around is not None and id(around.parent_block()) in owners:
                    component = around.parent_component()
                    found[id(component)] = around.parent_block(), component
        return list(found.values())

    def take_out(self) -> dict[tuple[int, str], Any]:
        """Remove all components, and return reusable ones by id of their block and name."""
        for variable, _, was_fixed in self.left:
            if was_fixed:
                variable.unfix()
        kept = {
            (id(block), item.local_name): item
            for block, item in self.components
            if block.component(item.local_name) is item and _can_stay(item)
        }
        for block, item in reversed([*self.components, *self.transformed()]):
            if block.component(item.local_name) is item:
                block.del_component(item)
        return kept


def components_of(block: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all components under a block, each with its parent block."""
    for item in list(block.component_objects(descend_into=False)):
        if block.ctype is Disjunct and item.ctype is not pyo.Constraint:
            continue
        yield block, item
        if item.ctype in (pyo.Block, Disjunct):
            for part in item.values():
                yield from components_of(part)


def rows_of_others(root: Any, blocks: list[Any], kinds: tuple[Any, ...]) -> Iterator[Any]:
    """Yield active constraints that were not written by `blocks` or transformations of them.

    They include those that users have added to such a block.

    Parameters
    ----------
    root : BlockData
        The model to search.
    blocks : list of FormulationBlockData
    kinds : tuple
        Types of components.
    """
    own = {id(item) for block in blocks for _, item in block._written.components}
    inside = {id(item) for block in blocks for _, item in block._written.transformed()}
    for block in root.block_data_objects(active=True, descend_into=(pyo.Block, Disjunct)):
        if id(block.parent_component()) in inside:
            inside |= {id(part) for part in block.component_objects(pyo.Block, descend_into=False)}
            continue
        for kind in kinds:
            for rows in block.component_objects(kind, active=True, descend_into=False):
                if id(rows) not in own:
                    yield from (row for row in rows.values() if row.active)


def check_unused(block: Any, users: Users, trial: Any, carried: list[Any]) -> None:
    """Raise if users refer to variables that a rebuild would remove.

    Parameters
    ----------
    block : FormulationBlockData
    users : Users
    trial : FormulationBlockData
        The result of the rebuild.
    carried : list of FormulationBlockData
        This block and those built on it, which will be rebuilt afterwards.

    Raises
    ------
    ProblemError
        If one of them was bounded or fixed by users, or is in a constraint or an objective.
    """
    there = {ComponentUID(variable, context=trial) for variable, _, _ in trial._written.left}
    lost: dict[int, str] = {}
    for _, item in block._written.components:
        for variable in _variables_of(item):
            place = ComponentUID(variable, context=block)
            if place in there and _can_stay(item):
                continue
            lost[id(variable)] = variable.name
            if place in users.limits or place in users.fixed:
                raise _lost(block, variable.name, "you have bounded or fixed")
    if not lost:
        return
    kinds = (pyo.Constraint, pyo.Objective, pyo.SOSConstraint)
    # The block's own expressions will be redefined.
    own = {
        id(expression)
        for _, item in block._written.components
        if item.ctype is pyo.Expression
        for expression in item.values()
    }
    for row in rows_of_others(block.model(), carried, kinds):
        for variable in _variables_in(row, own):
            if id(variable) in lost:
                raise _lost(block, lost[id(variable)], f"'{row.name}' uses")


def _lost(block: Any, name: str, why: str) -> ProblemError:
    return ProblemError(
        f"rebuilding '{block.name}' would drop '{name}', which {why}: with the bounds that hold "
        "now nothing is left to decide there.  Remedy: take it out of that first"
    )


def _variables_in(row: Any, own: set[int]) -> Iterator[Any]:
    """Yield the variables of a constraint or an objective, except in the expressions `own`."""
    found = list(row.get_variables() if row.ctype is pyo.SOSConstraint else [row.expr])
    while found:
        item = found.pop()
        if is_variable(item):
            yield item
        elif hasattr(item, "args") and id(item) not in own:
            found.extend(item.args)


def _variables_of(item: Any) -> list[Any]:
    """Return the variables of a component, including indicators of disjuncts."""
    if item.ctype is pyo.Var:
        return list(item.values())
    if item.ctype is Disjunct:
        return [disjunct.binary_indicator_var for disjunct in item.values()]
    return []


def _can_stay(item: Any) -> bool:
    """Return whether a rebuild can reuse a component."""
    if item.ctype is Disjunct:  # transformed ones cannot be reused
        return all(disjunct.transformation_block is None for disjunct in item.values())
    return item.ctype in (pyo.Var, pyo.Expression, pyo.Block)
