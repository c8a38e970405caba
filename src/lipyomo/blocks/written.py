"""What a block has written into a model, and what users have changed of it since.

A rebuild takes all of it out and writes anew, with the same objects wherever it can: constraints of
others go on to mean what they meant.  Users' own bounds and fixed values stay, and so does what
they have put under the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr.visitor import identify_variables
from pyomo.gdp import Disjunct

from lipyomo.base.errors import ProblemError
from lipyomo.blocks.ranges import ends_of, set_bounds

Ends: TypeAlias = tuple[float, float]

_ANYTHING: Ends = (-np.inf, np.inf)


@dataclass
class Users:
    """What users have set on variables of a block.

    Attributes
    ----------
    limits : list of (VarData, (float, float))
        Bounds.
    fixed : list of (VarData, float or None)
        Values.
    """

    limits: list[tuple[Any, Ends]] = field(default_factory=list)
    fixed: list[tuple[Any, Any]] = field(default_factory=list)

    def narrow(self, variables: list[Any]) -> None:
        """Give variables the narrower of their bounds and those of users."""
        limits = {id(variable): limit for variable, limit in self.limits}
        for variable in variables:
            limit = limits.get(id(variable))
            if limit is not None:
                low, high = ends_of(*variable.bounds)
                set_bounds(variable, max(low, limit[0]), min(high, limit[1]))


@dataclass
class Written:
    """The components that a block made, and how it left their variables.

    Attributes
    ----------
    components : list of (BlockData, Component)
        Outer ones first; not what its parts have written, which are blocks of their own.
    ends : list of (VarData, (float, float))
        Bounds of the variables.
    fixed : list of VarData
        What the block has fixed itself.
    users : Users
        What users had changed before.
    """

    components: list[tuple[Any, Any]] = field(default_factory=list)
    ends: list[tuple[Any, Ends]] = field(default_factory=list)
    fixed: list[Any] = field(default_factory=list)
    users: Users = field(default_factory=Users)

    @classmethod
    def under(cls, block: Any, foreign: set[int], users: Users) -> Written:
        """What is under a block apart from `foreign` components, once users' bounds are back."""
        components = list(_components(block, foreign))
        variables = [v for _, item in components for v in variables_of_component(item)]
        users.narrow(variables)
        for variable, value in users.fixed:
            variable.fix(value)
        theirs = {id(variable) for variable, _ in users.fixed}
        fixed = [v for v in variables if v.fixed and id(v) not in theirs]
        return cls(components, [(v, ends_of(*v.bounds)) for v in variables], fixed, users)

    def ids(self) -> set[int]:
        """The components by their ids."""
        return {id(item) for _, item in self.components}

    def transformed_ids(self) -> set[int]:
        """What transformations have made of them, by its ids."""
        return {id(item) for _, item in _transformed(self.components)}

    def changed(self) -> Users:
        """What users have changed, before or since."""
        known = {id(variable): limit for variable, limit in self.users.limits}
        own = set(map(id, self.fixed))
        found = Users()
        for variable, left in self.ends:
            limit = known.get(id(variable), _ANYTHING)
            ends = ends_of(*variable.bounds)
            if ends != left or limit is not _ANYTHING:
                low = limit[0] if ends[0] == left[0] else ends[0]
                high = limit[1] if ends[1] == left[1] else ends[1]
                found.limits.append((variable, (low, high)))
            if variable.fixed and id(variable) not in own:
                found.fixed.append((variable, variable.value))
        return found


def variables_of_component(item: Any) -> list[Any]:
    """The variables that a component is or brings along."""
    if item.ctype is pyo.Var:
        return list(item.values())
    if item.ctype is Disjunct:
        return [disjunct.binary_indicator_var for disjunct in item.values()]
    return []


class Shelf:
    """What a block had written, taken out of the model to be used again or to be put back.

    Parameters
    ----------
    written : Written
    """

    def __init__(self, written: Written) -> None:
        self.users = written.changed()
        self._fixed = [(v, v.value) for v in written.fixed if v.fixed]
        for variable, _ in self._fixed:
            variable.unfix()
        self._all = [
            (block, item)
            for block, item in (*written.components, *_transformed(written.components))
            if block.component(item.local_name) is item
        ]
        own = set(map(id, (item for _, item in written.components)))
        self._kept = {
            (id(block), item.local_name): item
            for block, item in self._all
            if id(item) in own and _can_stay(item)
        }
        self._members = [
            (item, list(item.items()), [_state_of(_settable(data)) for data in item.values()])
            for item in self._kept.values()
            if item.ctype is not pyo.Block
        ]
        self._names = {
            id(variable): variable.name
            for _, item in self._all
            for variable in variables_of_component(item)
        }
        for block, item in reversed(self._all):
            block.del_component(item)

    def take(self, block: Any, name: str) -> Any:
        """The component that was ``block.name``, or None."""
        return self._kept.pop((id(block), name), None)

    def foreign(self) -> set[int]:
        """What others have put into blocks that are here."""
        return {
            id(item)
            for component in self._kept.values()
            if _is_plain_block(component)
            for part in component.values()
            for item in part.component_objects(descend_into=False)
        }

    def vanished(self, written: Written) -> dict[int, str]:
        """Names of the variables that are not written any more, by their ids."""
        there = {id(variable) for variable, _ in written.ends}
        return {key: name for key, name in self._names.items() if key not in there}

    def forget(self) -> None:
        """Drop what was not used again."""
        for item, entries, _ in self._members:
            for key, _ in entries:
                if item.is_indexed() and key not in item.index_set():
                    del item[key]

    def restore(self, block: Any, foreign: set[int]) -> None:
        """Put everything back as it was."""
        for owner, item in reversed(list(_components(block, foreign))):
            owner.del_component(item)
        for item, entries, states in self._members:
            data = dict(entries)
            if item.is_indexed():
                for key in [key for key in item if key not in data]:
                    del item[key]
                regrow(item, list(data))
            for found, state in zip(data.values(), states, strict=True):
                _put_back(_settable(found), state)
        for owner, item in self._all:
            owner.add_component(item.local_name, item)
        for variable, value in self._fixed:
            variable.fix(value)


def regrow(component: Any, keys: list[Any]) -> None:
    """Give an indexed component other keys; what it holds under the old ones stays for now."""
    index = component.index_set()
    index.clear()
    index.update(keys)


def check_unused(
    block: Any, vanished: dict[int, str], users: Users, skip: Callable[[Any], bool]
) -> None:
    """Raise if variables that a rebuild would drop are part of what users have written.

    Parameters
    ----------
    block : FormulationBlockData
    vanished : dict
        Names of variables by their ids.
    users : Users
    skip : callable
        Blocks whose constraints will be written anew.

    Raises
    ------
    ProblemError
        If one of them has bounds or a value of users', or is in a constraint or an objective.
    """
    if not vanished:
        return
    for variable, _ in (*users.limits, *users.fixed):
        if id(variable) in vanished:
            raise _lost(block, vanished[id(variable)], "you have bounded or fixed")
    for owner in block.model().block_data_objects(active=True, descend_into=(pyo.Block, Disjunct)):
        if skip(owner):
            continue
        for kind in (pyo.Constraint, pyo.Objective, pyo.SOSConstraint):
            for item in owner.component_data_objects(kind, active=None, descend_into=False):
                for variable in _variables_in(item) if item.active else ():
                    if id(variable) in vanished:
                        raise _lost(block, vanished[id(variable)], f"'{item.name}' uses")


def _lost(block: Any, name: str, why: str) -> ProblemError:
    return ProblemError(
        f"rebuilding '{block.name}' would drop '{name}', which {why}: with the bounds that hold "
        "now nothing is left to decide there.  Remedy: take it out of that first"
    )


def _variables_in(item: Any) -> Iterator[Any]:
    """The variables of a constraint or an objective."""
    if item.ctype is pyo.SOSConstraint:
        yield from item.get_variables()
    elif item.expr is not None:
        yield from identify_variables(item.expr, include_fixed=True)


def _components(block: Any, foreign: set[int]) -> Iterator[tuple[Any, Any]]:
    """What is under a block, in plain blocks and disjuncts too, with the block that it is in."""
    for item in list(block.component_objects(descend_into=False)):
        if id(item) in foreign or (block.ctype is Disjunct and item.ctype is not pyo.Constraint):
            continue
        yield block, item
        if _is_plain_block(item):
            for part in item.values():
                yield from _components(part, foreign)


def _transformed(components: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """What transformations have made of the disjuncts among components, in the same blocks."""
    owners = {id(block) for block, _ in components}
    found: dict[int, tuple[Any, Any]] = {}
    for _, item in components:
        for disjunct in item.values() if item.ctype is Disjunct else ():
            made = disjunct.transformation_block
            around = None if made is None else made.parent_block()
            if around is not None and id(around.parent_block()) in owners:
                component = around.parent_component()
                found[id(component)] = around.parent_block(), component
    return list(found.values())


def _is_plain_block(item: Any) -> bool:
    """Whether a component is a block of Pyomo's, none of this package."""
    return item.ctype in (pyo.Block, Disjunct) and not hasattr(item, "build_formulation")


def _can_stay(item: Any) -> bool:
    """Whether a rebuild can use a component again."""
    if item.ctype is Disjunct:  # what was transformed is of no use any more
        return all(disjunct.transformation_block is None for disjunct in item.values())
    return item.ctype in (pyo.Var, pyo.Expression, pyo.Block)


def _settable(data: Any) -> Any:
    """What a rebuild may change of a component: its variable, or its expression."""
    return data.binary_indicator_var if data.ctype is Disjunct else data


def _state_of(data: Any) -> Any:
    """That of a variable or an expression, as it is now."""
    if data.is_expression_type():
        return data.expr
    return data.lb, data.ub, data.fixed, data.value


def _put_back(data: Any, state: Any) -> None:
    """Undo what a rebuild has changed."""
    if data.is_expression_type():
        data.set_value(state)
        return
    low, high, fixed, value = state
    data.setlb(low)
    data.setub(high)
    data.fix(value, skip_validation=True)
    if not fixed:
        data.unfix()
