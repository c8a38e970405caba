"""The inputs of blocks: variables, expressions or numbers, and their feasible region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo
from pyomo.core.base.indexed_component_slice import IndexedComponent_slice
from pyomo.core.expr.visitor import identify_variables

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import DomainError, ProblemError
from lipyomo.blocks.assemble import add_forms_below, add_sizes, add_variables, builder_of
from lipyomo.blocks.assumptions import can_move
from lipyomo.blocks.base import FormulationBlockData
from lipyomo.blocks.labels import Labels, entries_of, refer
from lipyomo.networks.scaling import Scaling
from lipyomo.problems.domains import Box, Domain
from lipyomo.solvers.rows import Forms, Rows, index_of, linear
from lipyomo.solvers.variables import box_of, ends_of, is_variable, range_of_expression

InputBounds: TypeAlias = "Mapping[Any, tuple[float | None, float | None]] | npt.ArrayLike | None"
"""Pairs (lower, upper) by position or by index of the given variables, or one pair per input."""


class PlaceOptions(TypedDict, total=False):
    """Options on the inputs of all blocks of a network; see `ReluNetworkBlock`."""

    domain: Domain | None
    input_bounds: InputBounds
    scaling: Scaling | Any


def items_of(given: Any, what: str) -> tuple[list[Any], list[Any]]:
    """Return the keys and the items of a given container.

    Parameters
    ----------
    given : component, slice, mapping, array, (nested) sequence, or a single item
        A block of this package stands for its result: outputs, gradient, derivative, value.
    what : str
        Names the argument in error messages.

    Raises
    ------
    ProblemError
        If the items have no defined order, or are not all numbers or Pyomo expressions.
    """
    if isinstance(given, str | bytes) or given is None:
        raise ProblemError(
            f"{given!r} was given as {what}.  Remedy: pass variables, expressions or numbers"
        )
    if isinstance(given, FormulationBlockData):
        given = given._result()
    if isinstance(given, IndexedComponent_slice):
        given = entries_of(given)
    elif hasattr(given, "index_set"):
        index = given.index_set()  # products of ordered sets have an order, even if Pyomo denies it
        ordered = index.isordered() or all(part.isordered() for part in index.subsets())
        if given.is_indexed() and len(given) > 1 and not ordered:
            raise ProblemError(
                f"'{given.name}' was given as {what}, but its index set has no order (a Python "
                "set or dict?), and a network's inputs have one.  Remedy: declare it over a list, "
                "or pass the variables as a list"
            )
        given = {key: given[key] for key in given} if given.is_indexed() else [given]
    elif isinstance(given, set | frozenset):
        raise ProblemError(f"a set was given as {what}, but sets have no order.  Remedy: a list")
    found = list(given.values()) if isinstance(given, Mapping) else list(_flat(given))
    keys = list(given) if isinstance(given, Mapping) else list(range(len(found)))
    for position, item in enumerate(found):
        if hasattr(item, "is_named_expression_type") and item.is_named_expression_type():
            if is_variable(item.expr):
                found[position] = item.expr
        elif not (is_number(item) or _is_pyomo(item)):
            raise ProblemError(
                f"{item!r} was given among the {what}.  Remedy: pass variables, expressions, "
                "Params or numbers"
            )
    return keys, found


def _flat(given: Any) -> Iterator[Any]:
    """Yield the items of nested sequences and arrays."""
    if _is_pyomo(given) or isinstance(given, str) or not isinstance(given, Iterable):
        yield given
        return
    for item in given.ravel().tolist() if isinstance(given, np.ndarray) else given:
        if isinstance(item, IndexedComponent_slice):
            yield from item
        elif hasattr(item, "is_indexed") and item.is_indexed():
            yield from items_of(item, "inputs")[1]
        else:
            yield from _flat(item)


def holds_variables(given: Any) -> bool:
    """Return whether an argument, or its first item, is a variable, expression or block."""
    if isinstance(given, IndexedComponent_slice | FormulationBlockData):
        return True
    if hasattr(given, "ctype"):
        return given.ctype in (pyo.Var, pyo.Expression)
    if isinstance(given, list | tuple):
        return bool(given) and holds_variables(given[0])
    return _is_pyomo(given)


def is_number(item: Any) -> bool:
    """Return whether an item is a number; booleans are not."""
    return isinstance(item, int | float | np.number) and not isinstance(item, bool)


def _is_pyomo(item: Any) -> bool:
    """Return whether an item is a Pyomo variable, parameter or expression."""
    return hasattr(item, "is_expression_type") and hasattr(item, "is_potentially_variable")


def in_order(given: Any, what: str, labels: Labels | None) -> tuple[list[Any], list[Any]]:
    """Return keys and items of `given`, in the order of `labels` if these have the same keys.

    Raises
    ------
    ProblemError
        As `items_of`.
    """
    keys, found = items_of(given, what)
    if labels is None or keys == labels.keys or set(keys) != set(labels.keys):
        return keys, found
    by_key = dict(zip(keys, found, strict=True))
    return list(labels), [by_key[key] for key in labels]


def variables_of(
    block: Any,
    name: str,
    given: Any,
    what: str,
    size: int | None = None,
    labels: Labels | None = None,
) -> tuple[list[Any], list[Any]]:
    """Return keys and variables of `given`; each expression or number gets a new variable.

    The new variables are ``block.{name}_linked``, with the constraints ``block.{name}_link``.  The
    current ranges of the expressions become assumptions of `block`.

    Returns
    -------
    keys : list
    variables : list of VarData

    Raises
    ------
    ProblemError
        If their number is not `size`, or an item is neither variable, expression nor number.
    """
    keys, found = in_order(given, what, labels)
    if size is not None and len(found) != size:
        raise ProblemError(f"{what}: {len(found)} were given, the network has {size}")
    places = [j for j, item in enumerate(found) if not is_variable(item)]
    block._rely_on_owners([item for item in found if is_variable(item)])
    if not places:
        return keys, found
    values = [found[j] for j in places]
    if any(is_number(v) and not np.isfinite(v) for v in values):
        raise ProblemError(f"a number among the {what} is NaN or infinite")
    ends = [(float(v), float(v)) if is_number(v) else range_of_expression(v) for v in values]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    linked = add_variables(block, f"{name}_linked", places, lows, highs)
    tie = pyo.Constraint(index_of(places))
    block.add_component(f"{name}_link", tie)
    for j, variable, expression in zip(places, linked, values, strict=True):
        tie[j] = variable - expression == 0.0
        found[j] = variable
        if not is_number(expression):
            block._rely_on(expression, *range_of_expression(expression))
            block._rely_on_owners(list(identify_variables(expression)))
    return keys, found


@dataclass(frozen=True)
class Region:
    """The region of inputs: variable bounds, given bounds, and a domain.

    Attributes
    ----------
    own : Box
        Bounds of the variables themselves.
    wanted : pair of ndarray
        Additional bounds, given as an argument or by the domain; may be empty.
    domain : Domain or None
    sources : list of VarData, expressions or numbers
        The inputs as given.
    variables : list of VarData
        The variables of the inputs.
    labels : Labels
        The keys of the inputs.
    """

    own: Box
    wanted: tuple[FloatArray, FloatArray]
    domain: Domain | None
    sources: list[Any]
    variables: list[Any]
    labels: Labels

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """The box of all bounds and the domain; may be empty."""
        lower, upper = self.wanted
        return np.maximum(self.own.lower, lower), np.minimum(self.own.upper, upper)

    @property
    def moving(self) -> list[bool]:
        """Whether each input can vary, shape (d,)."""
        lower, upper = self.box
        return [
            bool(low < high) and can_move(source)
            for low, high, source in zip(lower, upper, self.sources, strict=True)
        ]

    def area(self) -> Domain:
        """Return the region as a domain.

        Raises
        ------
        DomainError
            If it is empty.
        """
        lower, upper = self.box
        wrong = np.flatnonzero(lower > upper)
        if wrong.size:
            j = int(wrong[0])
            name = self.variables[j].name if self.variables else f"inputs[{self.labels.keys[j]}]"
            raise DomainError(
                f"the domain and the bounds of '{name}' do not meet: at least {lower[j]:g}, at "
                f"most {upper[j]:g}"
            )
        domain = self.domain
        if domain is None or domain.is_box:
            return Box(lower, upper)
        if (lower <= domain.lower).all() and (upper >= domain.upper).all():
            return domain
        try:
            return domain.clipped(lower, upper)
        except DomainError:
            return Box(lower, upper)  # flat, or the centre is outside; rows express the rest


def parse_input_bounds(given: Any, labels: Labels) -> tuple[FloatArray, FloatArray]:
    """Return given lower and upper bounds of the inputs; infinite where none is given.

    Raises
    ------
    ProblemError
        If a key is unknown, or the numbers do not fit.
    """
    size = len(labels)
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        try:
            given = dict(zip(labels, given, strict=True))
        except (TypeError, ValueError):
            raise ProblemError(
                f"input_bounds: {given!r} is neither a dict nor a list of {size} pairs"
            ) from None
    for key, pair in given.items():
        j = labels.place(key)
        if j is None:
            raise ProblemError(f"input_bounds: there is no input {key!r}")
        try:
            lower[j], upper[j] = ends_of(*pair)
        except (TypeError, ValueError):
            lower[j] = np.nan
        if not lower[j] <= upper[j]:
            raise ProblemError(
                f"input_bounds: {pair!r} of input {key!r} is no pair (lower, upper) of numbers"
            )
    return lower, upper


def check_domain(domain: Any, size: int) -> None:
    """Check that `domain` is None, or a polyhedral domain of the right dimension.

    Raises
    ------
    ProblemError
        If it is not a domain, or of another dimension.
    DomainError
        If it is not a polyhedron.
    """
    if domain is None:
        return
    if not isinstance(domain, Domain):
        raise ProblemError(
            f"domain={domain!r} is not a domain.  Remedy: Box(lower, upper), ball(...), a "
            "Polytope, or input_bounds= for pairs of numbers"
        )
    if domain.dimension != size:
        raise ProblemError(
            f"the domain has the dimension {domain.dimension}, the network {size} inputs"
        )
    if domain.ball is not None and domain.ball.norm != "l1":
        raise DomainError(
            f"the domain ({domain.describe()}) is not a polyhedron, which a linear model cannot "
            "express.  Remedy: use its bounding box, or method bnb"
        )


def attach_inputs(
    block: FormulationBlockData, given: Any, place: PlaceOptions, shape: tuple[int, ...]
) -> Region:
    """Declare ``block.inputs`` and the constraints that keep them in their region.

    Bounds implied by those of the variables get no row, and become assumptions.
    """
    labels, domain = Labels.of(None, shape), place.get("domain")
    check_domain(domain, len(labels))
    variables: list[Any] = []
    sources: list[Any] = []
    own = Box(-np.inf, np.inf, len(labels))
    if given is not None:
        keys, variables = variables_of(block, "inputs", given, "inputs", len(labels))
        labels, sources = Labels.of(keys, shape), items_of(given, "inputs")[1]
        own = box_of(variables, finite=False)
    lower, upper = parse_input_bounds(place.get("input_bounds"), labels)
    if domain is not None:
        lower, upper = np.maximum(lower, domain.lower), np.minimum(upper, domain.upper)
    region = Region(own, (lower, upper), domain, sources, variables, labels)
    region.area()
    if given is not None:
        refer(block, "inputs", variables, labels)
    else:
        made = add_variables(block, "inputs", labels, *region.box)
        builder = builder_of(block)
        builder._draft.users.hold(builder)
        own = box_of(made, finite=False)
        region = replace(region, own=own, sources=made, variables=made)
    _hold(block, region)
    if domain is not None:
        _add_domain_rows(block, region.variables, domain)
    return region


def _hold(block: FormulationBlockData, region: Region) -> None:
    """Add rows for bounds that the variables do not imply; the others become assumptions."""
    own, variables, (lower, upper) = region.own, region.variables, region.wanted
    below, above = lower > own.lower, upper < own.upper
    places = np.flatnonzero(below | above).tolist()
    if places:
        rows = pyo.Constraint(index_of(places))
        block.add_component("domain_box", rows)
        for j in places:
            low = float(lower[j]) if below[j] else None
            high = float(upper[j]) if above[j] else None
            rows[j] = (low, linear([1.0], [variables[j]]), high)
    known = np.where(below, -np.inf, own.lower), np.where(above, np.inf, own.upper)
    for variable, least, most in zip(variables, *(side.tolist() for side in known), strict=True):
        block._rely_on(variable, least, most)


def _add_domain_rows(block: Any, variables: list[Any], domain: Domain) -> None:
    """Declare the rows of a polyhedral domain in addition to its box."""
    ball = domain.ball
    if ball is not None:
        keys, reach = range(len(variables)), np.full(len(variables), ball.radius)
        gap = add_sizes(block, "domain_gap", keys, variables, reach, ball.point)
        Rows(block, "domain_rows", [0]).at_most(0, [1.0] * len(gap), gap, ball.radius)
    elif domain.rows.count:
        add_forms_below(block, "domain_rows", Forms.of(variables).map(domain.rows.A), domain.rows.b)
