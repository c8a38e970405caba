"""The inputs of blocks: existing variables or new ones, and the domain that their bounds span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyomo.environ as pyo

from lipyomo.blocks.assemble import Affine, Rows, add_variables
from lipyomo.domains import Box, Domain
from lipyomo.errors import BoundsMissing, DomainError, ProblemError


def refer(block: Any, name: str, variables: list[Any]) -> None:
    """Declare ``block.name[j]``, expressions that stand for existing variables.

    (Pyomo's own `Reference` prints memory addresses here, and the MPS writer stumbles over it.)
    """
    expressions = pyo.Expression(range(len(variables)))
    block.add_component(name, expressions)
    for j, variable in enumerate(variables):
        expressions[j] = variable


def variables_of(given: Any, size: int, what: str) -> list[Any]:
    """The variables in `given` as a list of length `size`.

    Parameters
    ----------
    given : Var, indexed Var, mapping or iterable of VarData
    size : int
        What the network expects.
    what : str
        For the error message.

    Raises
    ------
    ProblemError
        If the number differs, something else than a variable is among them, or their order is
        not defined.
    """
    if hasattr(given, "is_indexed"):
        if given.is_indexed() and len(given) > 1 and not given.index_set().isordered():
            raise ProblemError(
                f"'{given.name}' was given as {what}, but its index set has no order (a Python "
                "set or dict?), and a network's inputs have one.  Remedy: declare it over a list, "
                "or pass the variables as a list"
            )
        found = list(given.values()) if given.is_indexed() else [given]
    elif isinstance(given, Mapping):
        found = list(given.values())
    else:
        found = list(given) if isinstance(given, Iterable) else [given]
    if len(found) != size:
        raise ProblemError(f"{len(found)} variables were given as {what}, the network has {size}")
    for position, item in enumerate(found):
        if hasattr(item, "is_named_expression_type") and item.is_named_expression_type():
            item = found[position] = item.expr
        if not (hasattr(item, "is_variable_type") and item.is_variable_type()):
            raise ProblemError(
                f"'{item}' was given among the {what}, but is not a variable.  Remedy: declare a "
                "Var with bounds and tie it to the expression by a constraint"
            )
    return found


def attach_inputs(block: Any, given: Any, domain: Domain | None, size: int) -> list[Any]:
    """Declare ``block.inputs``: new variables, or expressions that stand for the given ones."""
    if given is None:
        lower = None if domain is None else domain.lower
        upper = None if domain is None else domain.upper
        return add_variables(block, "inputs", range(size), lower, upper)
    found = variables_of(given, size, "inputs")
    refer(block, "inputs", found)
    return found


def box_of(variables: list[Any], finite: bool = True) -> Box:
    """The box spanned by the variables' bounds (a fixed variable keeps its bounds).

    Raises
    ------
    BoundsMissing
        If `finite` is asked for and a bound is missing.
    """
    ends = [variable.bounds for variable in variables]
    missing = [v for v, (low, high) in zip(variables, ends, strict=True) if None in (low, high)]
    if missing and finite:
        names = ", ".join(variable.name for variable in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise BoundsMissing(
            f"inputs without finite bounds: {names}{more}; the switches of the network have no "
            "big-M without them.  Remedy: set bounds on these variables, pass a bounded domain, "
            "or pass bounds of the pre-activations"
        )
    lower = [-np.inf if low is None else float(low) for low, _ in ends]
    upper = [np.inf if high is None else float(high) for _, high in ends]
    return Box(lower, upper)


def add_domain_rows(block: Any, variables: list[Any], domain: Domain) -> None:
    """Declare the rows of a polyhedral domain beyond its box as ``block.domain_rows``.

    Raises
    ------
    DomainError
        If the domain is curved.
    """
    if not domain.is_polyhedral:
        raise DomainError(
            f"the domain ({domain.describe()}) is not a polyhedron, which a linear model cannot "
            "express.  Remedy: use its bounding box, or method bnb"
        )
    rows = domain.rows
    if rows.count == 0:
        return
    forms = Affine.of(variables).map(rows.A)
    written = Rows(block, "domain_rows", range(rows.count))
    for k, ((coefs, columns), bound) in enumerate(zip(forms.rows(), rows.b.tolist(), strict=True)):
        if columns:
            written.at_most(k, coefs, columns, bound)
