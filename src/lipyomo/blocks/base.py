"""What all blocks share: built once, all or nothing, rebuilt in place, checked before a solve.

A formulation relies on bounds of variables that it was given: switches have their big-M from them,
and units that they decide have no switch.  Those bounds are kept with the block.  Whoever reads the
block's constraints to solve them (a writer, a solver interface, a transformation) gets an error
where a bound has become wider since, instead of a model that is wrong without saying so.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC
from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.base.block import BlockData, declare_custom_block
from pyomo.core.base.indexed_component_slice import IndexedComponent_slice

from lipyomo.arguments import instance
from lipyomo.blocks.ranges import ends_of, is_variable
from lipyomo.blocks.use import Promise, check_use
from lipyomo.errors import ProblemError

FIXED_TOLERANCE = 1e-9
"""Relative distance by which a fixed variable may miss a bound: solvers allow far more."""


@dataclass
class Reliance:
    """Bounds of a variable, or of an expression, that a formulation relied on.

    Attributes
    ----------
    source : VarData or expression
    lower, upper : float
        Infinite where nothing was relied on.
    """

    source: Any
    lower: float
    upper: float

    def broken(self) -> str | None:
        """What has become wider since, or None."""
        source = self.source
        if not is_variable(source):
            found = self._compare(source, *range_of_expression(source), 0.0)
            if found is not None:
                return found
            # A variable in it may be fixed outside its own bounds.
            low, high = compute_bounds_on_expr(source)
            slack = FIXED_TOLERANCE * max(1.0, abs(low or 0.0), abs(high or 0.0))
            return self._compare(source, low, high, slack)
        low, high = source.bounds
        found = self._compare(source, low, high, 0.0)
        if found is None and source.fixed and source.value is not None:
            value = float(source.value)
            slack = FIXED_TOLERANCE * max(1.0, abs(value))
            found = self._compare(source, value, value, slack, "fixed at")
        return found

    def _compare(
        self, source: Any, low: float | None, high: float | None, slack: float, what: str = "now in"
    ) -> str | None:
        lower, upper = ends_of(low, high)
        if lower >= self.lower - slack and upper <= self.upper + slack:
            return None
        now = f"{lower:g}" if what == "fixed at" else f"[{lower:g}, {upper:g}]"
        return (
            f"'{source}' is {what} {now}, the block was built for [{self.lower:g}, {self.upper:g}]"
        )


def range_of_expression(expression: Any) -> tuple[float, float]:
    """Range of an expression from the bounds of its variables, fixed or not, rounded outwards."""
    lower, upper = ends_of(*compute_bounds_on_expr(expression, ignore_fixed=True))
    return lower - 1e-12 * abs(lower), upper + 1e-12 * abs(upper)


class FormulationBlockData(BlockData):
    """Base of the blocks of this package.

    Notes
    -----
    Subclasses write ``build_formulation``, with checks of its arguments first; `formulation_block`
    keeps the arguments for rebuilds and lets all of it happen, or nothing.
    """

    _KEPT: ClassVar[tuple[str, ...]] = ()
    """Variables that survive a rebuild, so that the constraints of others stay valid."""
    _STATE: ClassVar[tuple[str, ...]] = ()
    """Attributes that a failed build puts back."""
    _formulate: ClassVar[Callable[..., None]]
    """``build_formulation`` as the subclass has written it."""

    def __init__(self, component: Any) -> None:
        super().__init__(component)
        self._recipe: dict[str, Any] | None = None
        self._relied: list[Reliance] = []
        self._parts: list[tuple[Any, int]] = []
        self._promises: list[Promise] = []
        self._made: list[str] = []
        self._version = 0
        self._owned = False

    @property
    def is_built(self) -> bool:
        """Whether `build_formulation` was called."""
        return self._recipe is not None

    def rebuild(self) -> None:
        """Write the constraints anew, in place, for the bounds that hold now.

        Outputs (``outputs``, ``gradient``, ``derivative``, ``functional``, ``value``, ...) keep
        their variables; what is inside the block is made again.  Blocks that were built on this
        one have to be rebuilt after it: `lipyomo.blocks.rebuild` does so for a whole model.

        Raises
        ------
        ProblemError
            If the block was not built yet.
        LipyomoError
            As `build_formulation`; the block then stays as it was.
        """
        if self._recipe is None:
            raise ProblemError(
                f"block '{self.name}' was not built yet.  Remedy: call build_formulation first"
            )
        self._build(self._again(dict(self._recipe)), again=True)

    def stale(self) -> str | None:
        """Say what the block relied on and what no longer holds; None if all is well."""
        for known in self._relied:
            found = known.broken()
            if found is not None:
                return found
        for other, version in self._parts:
            if other._version != version:
                return f"'{other.name}', which it was built on, was rebuilt"
        return None

    def _again(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a rebuild, from those of the first time."""
        return recipe

    def _build(self, arguments: dict[str, Any], again: bool = False) -> None:
        """Write the constraints from the arguments of ``build_formulation``."""
        # What is in a slice may change; the block belongs to the variables that were in it.
        recipe = {
            name: list(given) if isinstance(given, IndexedComponent_slice) else given
            for name, given in arguments.items()
        }
        with self._building(recipe, again):
            self._formulate(**recipe)

    @contextmanager
    def _building(self, recipe: dict[str, Any], again: bool) -> Iterator[None]:
        """Build all or nothing; `again` in place of what there was.

        Raises
        ------
        ProblemError
            If the block is built already.
        """
        if self._recipe is not None and not again:
            raise ProblemError(
                f"block '{self.name}' is built already.  Remedy: call rebuild() when bounds have "
                "changed, or make a new block"
            )
        names = ("_recipe", "_relied", "_parts", "_promises", *self._STATE)
        state = {name: value for name, value in self.__dict__.items() if name in names}
        stash = [
            self.component(name)
            for name in self._made
            if name not in self._KEPT and self.component(name) is not None
        ]
        ends = [
            (variable, variable.lb, variable.ub)
            for name in self._KEPT
            if self.component(name) is not None and hasattr(self.component(name), "values")
            for variable in self.component(name).values()
            if is_variable(variable)
        ]
        with PauseGC():
            for component in stash:
                self.del_component(component)
            before = set(self.component_map()) - set(self._made)
            self._relied, self._parts, self._promises = [], [], []
            try:
                yield
            except BaseException:
                kept = set(self._made) & set(self._KEPT)
                for name in [n for n in self.component_map() if n not in before | kept]:
                    if self.component(name) is not None:
                        self.del_component(name)
                for component in stash:
                    self.add_component(component.local_name, component)
                for variable, low, high in ends:
                    variable.setlb(low)
                    variable.setub(high)
                for name, value in state.items():
                    setattr(self, name, value)
                raise
        made = list(self.component_objects(descend_into=False))
        self._made = [
            item.local_name
            for item in made
            if item.local_name not in before and item.ctype is not pyo.Set
        ]
        self._recipe = recipe
        self._version += 1

    def _rely_on(self, variable: Any, lower: float, upper: float) -> None:
        """Keep bounds that the formulation needs."""
        self._relied.append(Reliance(variable, lower, upper))

    def _rely_on_bounds(self, variables: list[Any]) -> None:
        """Keep all bounds of variables as they are now."""
        for variable in variables:
            self._rely_on(variable, *ends_of(*variable.bounds))

    def _rely_on_block(self, other: Any) -> None:
        """Keep the state of another block that this one is built on."""
        if isinstance(other, FormulationBlockData):
            self._parts.append((other, other._version))

    def _promise(
        self, variable: Any, sense: Literal["max", "min"], end: float, strict: bool = False
    ) -> None:
        """Keep that a variable means something only where it is made large ("max") or small.

        `end` is the bound that the block itself gives it on the other side; `strict` makes it an
        error to bind the variable there.
        """
        self._promises.append(Promise(variable, sense, end, strict))

    def _component_data_itervalues(
        self, ctype: Any, active: Any, sort: Any, dedup: Any
    ) -> Iterator[Any]:
        """Pyomo's iteration over this block's components; active constraints are checked first.

        All writers and solver interfaces come here for the constraints that they solve.
        """
        if active and self._recipe is not None and _asks_for_constraints(ctype):
            found = self.stale()
            if found is not None:
                raise ProblemError(
                    f"block '{self.name}' no longer fits the model: {found}.  "
                    f"Remedy: {self.name}.rebuild(), or lipyomo.blocks.rebuild(model) for all "
                    "blocks of a model"
                )
            # One look at the model serves all blocks that one iteration comes to.
            root = self.model()
            if self._promises and not self._owned and id(root) not in dedup.seen_data:
                dedup.seen_data.add(id(root))
                check_use(root)
        yield from super()._component_data_itervalues(ctype, active, sort, dedup)


def formulation_block(name: str) -> Callable[[type], type]:
    """Declare a block as Pyomo does, with its documentation where people look for it.

    ``build_formulation`` of the decorated class builds all or nothing, and its arguments are kept.
    The names that Pyomo makes (``ReluNetworkBlock`` and its scalar and indexed kinds) get docstring
    and ``build_formulation`` of the decorated data class; on an indexed block the call says that
    its members are built one by one.

    Parameters
    ----------
    name : str
        Of the component.
    """

    def declare(data: Any) -> type:
        write = data._formulate = vars(data)["build_formulation"]
        signature = inspect.signature(write)

        @functools.wraps(write)
        def build(self: Any, *arguments: Any, **options: Any) -> None:
            given = signature.bind(self, *arguments, **options)
            given.apply_defaults()
            recipe = dict(given.arguments)
            del recipe["self"]
            self._build(recipe)

        data.build_formulation = build
        declare_custom_block(name=name)(data)
        module = sys.modules[data.__module__]
        for prefix in ("", "Scalar", "Indexed"):
            kind = getattr(module, prefix + name)
            kind.__doc__ = data.__doc__

        def of_each(self: Any, *arguments: Any, **options: Any) -> None:
            raise ProblemError(
                f"'{self.name}' is indexed.  Remedy: call build_formulation of each member, "
                f"{self.name}[key].build_formulation(...)"
            )

        of_each.__doc__ = build.__doc__
        getattr(module, name).build_formulation = build
        getattr(module, "Indexed" + name).build_formulation = of_each
        found: type = data
        return found

    return declare


def _asks_for_constraints(ctype: Any) -> bool:
    """Whether an iteration over components includes constraints."""
    if ctype is pyo.Constraint:
        return True
    return isinstance(ctype, list | tuple | set | frozenset) and pyo.Constraint in ctype


def rebuild(model: Any) -> int:
    """Rebuild, in place, the blocks of a model that no longer fit its bounds.

    Parameters
    ----------
    model : BlockData
        A model, or any block in it.

    Returns
    -------
    int
        How many blocks were rebuilt.

    Raises
    ------
    LipyomoError
        If a block cannot be built for the bounds that hold now, because they are infinite for
        instance; that block, and what depends on it, stays as it was.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Network
    >>> from lipyomo.blocks import ReluNetworkBlock, rebuild
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0], bounds=(-1, 1))
    >>> m.net = ReluNetworkBlock()
    >>> m.net.build_formulation(Network.from_arrays([[[1.0]], [[2.0]]]), inputs=m.x)
    >>> m.x[0].setub(5)
    >>> rebuild(m)
    1
    """
    instance(model, BlockData, "the model", ProblemError, "a Pyomo model or block")
    blocks = [
        block
        for block in model.block_data_objects(active=True)
        if isinstance(block, FormulationBlockData) and block.is_built and not block._owned
    ]
    count = 0
    # A rebuilt block widens the bounds of its outputs, which others rely on: again until none is.
    for _ in range(len(blocks) + 1):
        waiting = [block for block in blocks if block.stale() is not None]
        if not waiting:
            break
        for block in waiting:
            if block.stale() is not None:
                block.rebuild()
                count += 1
    return count
