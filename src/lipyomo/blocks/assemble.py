"""Fast assembly of Pyomo components from matrices.

Affine maps stay matrices (`lipyomo.solvers.rows`).  Short rows are `LinearExpression` objects with
lists of Python floats, without closures (which cannot be pickled) and without arithmetic on Pyomo
objects (which is slow).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo
from pyomo.core.base.block import BlockData, declare_custom_block

from lipyomo.base.arrays import FloatArray
from lipyomo.solvers.rows import Forms, MatrixRows, Rows, index_of
from lipyomo.solvers.variables import set_bounds


@contextmanager
def all_or_nothing(component: Any) -> Iterator[None]:
    """Remove a component from its block again if the body fails."""
    try:
        yield
    except BaseException:
        if component.parent_block() is not None:
            component.parent_block().del_component(component)
        raise


def builder_of(block: Any) -> Any:
    """Return the block of this package under construction that contains the given block."""
    while getattr(block, "_draft", None) is None:
        block = block.parent_block()
    return block


def declared(
    block: Any,
    name: str,
    kind: Any,
    keys: Iterable[Any] | None = None,
    **options: Any,
) -> Any:
    """Declare the component ``block.name`` of type `kind` over `keys` (None: without index).

    During a rebuild, the previous component is reused with the new keys, so that references to it
    stay valid.
    """
    component = builder_of(block)._draft.kept.pop((id(block), name), None)
    index = None if keys is None else list(keys)
    if component is None:
        component = kind(**options) if index is None else kind(index_of(index), **options)
    elif index is not None:
        for key in set(component) - set(index):
            del component[key]
        component.index_set().clear()
        component.index_set().update(index)
    block.add_component(name, component)
    return component


def add_variables(
    block: Any,
    name: str,
    keys: Iterable[Any],
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
    binary: bool = False,
) -> list[Any]:
    """Declare ``block.name`` over `keys` and return its variables in that order.

    During a rebuild, previous variables are reused with new bounds.  Without keys nothing is
    declared.

    Parameters
    ----------
    block : BlockData
    name : str
    keys : iterable
    lower, upper : array_like, optional
        One bound per key; infinite ones are left out.
    binary : bool, optional
    """
    index = list(keys)
    if not index:
        return []
    domain = pyo.Binary if binary else pyo.Reals
    variable = declared(block, name, pyo.Var, index, domain=domain)
    found = [variable[key] for key in index]
    if lower is not None and upper is not None:
        lows, highs = (np.asarray(side, dtype=np.float64) for side in (lower, upper))
        for item, low, high in zip(found, lows.tolist(), highs.tolist(), strict=True):
            set_bounds(item, low, high)
    return found


def component_of(data: type) -> Any:
    """Return the component class that Pyomo has declared for a block data class."""
    return getattr(sys.modules[data.__module__], data.__name__.removesuffix("Data"))


@declare_custom_block(name="LayerBlock")
class LayerBlockData(BlockData):
    """The part of a block for one layer; missing variables of units read as empty components."""

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_UNITS:
            return super().__getattr__(name)
        found = pyo.Var(pyo.Set(initialize=[], dimen=2 if name == "segment" else 1))
        found.index_set().construct()
        found.construct()
        return found


_OF_UNITS = (
    *("preactivation", "output", "switch", "segment"),
    *("arriving", "switched", "low", "high", "on", "off"),
)


def add_layers(block: Any, count: int) -> None:
    """Declare ``block.layer[i]``."""
    declared(block, "layer", component_of(LayerBlockData), range(count))


def add_value(block: Any, low: float = -np.inf, high: float = np.inf) -> Any:
    """Declare ``block.value``."""
    variable = declared(block, "value", pyo.Var)
    set_bounds(variable, low, high)
    return variable


def add_sizes(
    block: Any,
    name: str,
    keys: Sequence[Any],
    variables: Sequence[Any],
    upper: npt.ArrayLike,
    centre: npt.ArrayLike = 0.0,
) -> list[Any]:
    """Declare ``block.name <= upper`` with rows ``block.name >= |variables - centre|``.

    The rows are ``block.{name}_above[key, side]``.
    """
    sizes = add_variables(block, name, keys, np.zeros(len(keys)), upper)
    rows = Rows(block, f"{name}_above", [(key, side) for key in keys for side in (1, -1)])
    middles = np.broadcast_to(centre, len(keys)).tolist()
    for key, size, variable, middle in zip(keys, sizes, variables, middles, strict=True):
        rows.at_least((key, 1), [1.0, -1.0], [size, variable], -middle)
        rows.at_least((key, -1), [1.0, 1.0], [size, variable], middle)
    return sizes


def add_equalities(
    block: Any,
    name: str,
    keys: Iterable[Any],
    targets: Sequence[Any],
    forms: Forms,
    keep: npt.ArrayLike | None = None,
) -> None:
    """Declare ``targets[k] == forms[k]``, for the forms in `keep`, as ``block.name``."""
    index = list(keys)
    if not index:
        return
    rows = MatrixRows(index_of(index), targets, forms, keep)
    block.add_component(name, rows)
    rows.fill(index)


def add_forms_below(block: Any, name: str, forms: Forms, bounds: FloatArray) -> None:
    """Declare ``forms[k] <= bounds[k]`` as ``block.name``, for forms with variables."""
    rows = Rows(block, name, range(forms.size))
    for k, ((coefs, columns), bound) in enumerate(zip(forms.rows(), bounds.tolist(), strict=True)):
        if columns:
            rows.at_most(k, coefs, columns, bound)
