"""What all blocks share: built once, all or nothing, rebuilt in place, checked before a solve.

A formulation relies on bounds of variables that it was given: switches have their big-M from them,
and units that they decide have no switch.  Those bounds are kept with the block.  Whoever reads the
block's constraints to solve them (a writer, a solver interface, a transformation) gets an error
where a bound has become wider since, instead of a model that is wrong without saying so.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base.block import CustomBlock, declare_custom_block
from pyomo.core.base.indexed_component_slice import IndexedComponent_slice
from pyomo.gdp import Disjunct

from lipyomo.base.arguments import brief, deprecated, instance
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.blocks.assemble import all_or_nothing, component_of, declared
from lipyomo.blocks.assumptions import Assumption, Unmoving, enclosing, switched_off
from lipyomo.blocks.labels import entries_of
from lipyomo.blocks.use import OneSided, check_use
from lipyomo.blocks.written import Users, WrittenParts, check_unused, components_of
from lipyomo.networks.network import Network
from lipyomo.solvers.variables import ends_of

if TYPE_CHECKING:
    from lipyomo.blocks.typed import BlockData
else:
    from pyomo.core.base.block import BlockData


@dataclass(frozen=True)
class Record:
    """What a block was built from, and what it relies on since.

    Attributes
    ----------
    recipe : dict
        Arguments of ``build_formulation``, for rebuilds.
    version : int
        How often it was built.
    assumptions : list of Assumption or Unmoving
        Bounds that have to hold.
    grounds : list of (FormulationBlockData, int or None)
        Blocks that have to be active, with their versions where it was built on them.
    one_sided : list of OneSided
        Variables that mean something only where they are made large, or small.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    assumptions: list[Assumption | Unmoving] = field(default_factory=list)
    grounds: list[tuple[Any, int | None]] = field(default_factory=list)
    one_sided: list[OneSided] = field(default_factory=list)


@dataclass(frozen=True)
class Draft:
    """What a build goes by.

    Attributes
    ----------
    users : Users
        What users have set on the variables that will be there.
    kept : dict
        Components to be used again, by the block that they are for, and their names.
    foreign : set of int
        Ids of components that are under the block already.
    """

    users: Users = field(default_factory=Users)
    kept: dict[tuple[int, str], Any] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)


class FormulationBlockData(BlockData):
    """Base of the blocks of this package.

    Notes
    -----
    Subclasses write ``build_formulation``, with checks of its arguments first; `formulation_block`
    keeps the arguments for rebuilds and lets all of it happen, or nothing.
    """

    _RESULT: ClassVar[str] = "value"
    """What the block stands for where variables are asked for."""
    _formulate: ClassVar[Callable[..., None]]
    """``build_formulation`` as the subclass has written it."""
    _owned = False
    """Whether the block is a part of another one, which answers for it."""
    _draft: Draft | None = None
    """While it is built."""

    def __init__(self, component: Any) -> None:
        super().__init__(component)
        self._record = Record()
        self._written = WrittenParts()

    @property
    def is_built(self) -> bool:
        """Whether `build_formulation` was called."""
        return self._record.version > 0

    def rebuild(self) -> None:
        """Write the constraints anew, in place, for the bounds that hold now.

        Variables and expressions stay the same objects, bounds that you have set on them stay
        where they are narrower than the computed ones, and so do fixed values and components that
        you have put under the block.  Blocks that were built on this one have to be rebuilt after
        it: `lipyomo.blocks.rebuild` does so for a whole model.

        Raises
        ------
        ProblemError
            If the block was not built yet, or a variable would be dropped that you have bounded,
            fixed, or used in a constraint.
        LipyomoError
            As `build_formulation`; the block then stays as it was.
        """
        if not self.is_built:
            raise ProblemError(
                f"block '{self.name}' was not built yet.  Remedy: call build_formulation first"
            )
        if self._owned:
            _owner_of(self).rebuild()
            return
        recipe = dict(self._record.recipe)
        users = self._written.changed(self)
        # Aside first: what fails there has changed nothing, and what is missing there would be.
        aside = pyo.Block(concrete=True)
        aside.add_component(
            self.parent_component().local_name,
            component_of(self.parent_component()._ComponentDataClass)(),
        )
        (trial,) = aside.component_objects(descend_into=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial._write(recipe, Draft(users))
        blocks = self.model().block_data_objects(active=True, descend_into=(pyo.Block, Disjunct))
        carried = [self, *filter(self._carries, blocks)]
        check_unused(self, users, trial, carried)
        own = {id(item) for _, item in self._written.components}
        foreign = {id(item) for _, item in components_of(self)} - own
        self._write(recipe, Draft(users, self._written.take_out(), foreign))

    def _result(self) -> Any:
        """The variables that the block stands for."""
        found = self.component(self._RESULT)
        if found is None:
            raise ProblemError(
                f"block '{self.name}' was given for its '{self._RESULT}', which it does not have.  "
                "Remedy: build it first; of a whole Jacobian give one row, block.row[k]"
            )
        return found

    def stale(self) -> str | None:
        """Say what the block relied on and what no longer holds; None if all is well."""
        for known in self._record.assumptions:
            broken = known.broken()
            if broken is not None:
                return broken
        for other, version in self._record.grounds:
            if version not in (None, other._record.version):
                return f"'{other.name}', which it was built on, was rebuilt"
            found: str | None = other.stale() if other.parent_block() is self else None
            if found is not None:
                return found
        return None

    @staticmethod
    def _is_subject(given: Any) -> bool:
        """Whether the first argument of a constructor is what a block is about, and no index."""
        # A variable is no index either: it is refused as what it was given for.
        is_variable = getattr(given, "ctype", None) is pyo.Var
        return is_variable or isinstance(given, Network | BlockData | str | os.PathLike)

    def _build(self, arguments: dict[str, Any]) -> None:
        """Write the constraints, all or nothing.

        Raises
        ------
        ProblemError
            If the block is built already.
        """
        if self.is_built:
            raise ProblemError(
                f"block '{self.name}' is built already.  Remedy: call rebuild() when bounds have "
                "changed, or make a new block"
            )
        # What is in a slice may change; the block belongs to the variables that were in it.
        recipe = {
            name: entries_of(given) if isinstance(given, IndexedComponent_slice) else given
            for name, given in arguments.items()
        }
        if "network" in recipe:
            recipe["network"] = network_given(recipe["network"])
        before = set(self.__dict__)
        foreign = {id(item) for _, item in components_of(self)}
        try:
            self._write(recipe, Draft(foreign=foreign))
        except BaseException:
            for owner, item in reversed(WrittenParts.under(self, foreign, Users()).components):
                owner.del_component(item)
            for name in set(self.__dict__) - before:
                del self.__dict__[name]
            self._record = Record()
            raise

    @with_one_blas_thread
    def _write(self, recipe: dict[str, Any], draft: Draft) -> None:
        """Write the constraints and keep what is relied on."""
        self._record, self._draft = Record(recipe, self._record.version + 1), draft
        try:
            with PauseGC():
                self._formulate(**recipe)
                self._written = WrittenParts.under(self, draft.foreign, draft.users)
        finally:
            self.__dict__.pop("_draft")

    def _rely_on(self, variable: Any, lower: float, upper: float) -> None:
        """Keep bounds that the formulation needs."""
        self._record.assumptions.append(Assumption(variable, lower, upper))

    def _rely_on_bounds(self, variables: list[Any]) -> None:
        """Keep all bounds of variables as they are now."""
        for variable in variables:
            self._rely_on(variable, *ends_of(*variable.bounds))

    def _rely_on_block(self, other: Any) -> None:
        """Keep the state of another block that this one is built on."""
        self._record.grounds.append((other, other._record.version))

    def _rely_on_owners(self, variables: Iterable[Any]) -> None:
        """Keep the blocks that given variables belong to: they have to be active."""
        owners = {id(owner): owner for owner in map(_owner_of, variables) if owner is not None}
        others = [(owner, None) for owner in owners.values() if owner is not self]
        self._record.grounds.extend(others)

    def _carries(self, block: Any) -> bool:
        """Whether a block was built on this one, or is part of one that was."""
        if not isinstance(block, FormulationBlockData):
            return False
        grounds = block._record.grounds
        return any(other is self and version is not None for other, version in grounds)

    def _make_part(self, name: str, data: Any, **arguments: Any) -> Any:
        """Build ``self.name``, a block that is rebuilt with this one and answers for it."""
        return self._own(declared(self, name, component_of(data)), **arguments)

    def _own(self, part: Any, **arguments: Any) -> Any:
        """Build a block that is declared under this one as a part of it."""
        part._owned = True
        part._record = Record(arguments, part._record.version + 1)
        part._formulate(**arguments)
        self._record.grounds.append((part, None))
        return part

    def _adopt(self, component: Any) -> None:
        """Take a component under this block for its own: a rebuild removes it."""
        owner: Any = self
        while owner._owned:
            owner = _owner_of(owner)
        owner._written.components.append((component.parent_block(), component))

    def _component_data_itervalues(
        self, ctype: Any, active: Any, sort: Any, dedup: Any
    ) -> Iterator[Any]:
        """Pyomo's iteration over this block's components; active constraints are checked first.

        All writers and solver interfaces come here for the constraints that they solve.
        """
        kinds = ctype if isinstance(ctype, list | tuple | set | frozenset) else (ctype,)
        if active and self.is_built and pyo.Constraint in kinds and _compiled():
            self._check()
            # One look at the model serves all blocks that one iteration comes to.
            root = self.model()
            if self._record.one_sided and not self._owned and id(root) not in dedup.seen_data:
                dedup.seen_data.add(id(root))
                check_use(root)
        yield from super()._component_data_itervalues(ctype, active, sort, dedup)

    def _check(self) -> None:
        """Complain of what no longer fits, before the block's constraints are solved."""
        found = self.stale()
        if found is not None:
            raise ProblemError(
                f"block '{self.name}' no longer fits the model: {found}.  Remedy: "
                f"{self.name}.rebuild(), or lipyomo.blocks.rebuild(model) for all blocks of a model"
            )
        for other, _ in self._record.grounds:
            off = switched_off(other, self)
            if off is not None:
                raise ProblemError(
                    f"block '{self.name}' was built on '{other.name}', but '{off.name}' is "
                    f"deactivated, so that nothing holds the variables there.  Remedy: "
                    f"{off.name}.activate(), or deactivate '{self.name}', too"
                )


_LOOKING = ("pyomo.contrib.fbbt", "pyomo.contrib.incidence_analysis", "pyomo.util")
"""Packages of Pyomo's that read constraints and neither solve, write nor transform them."""


def _compiled() -> bool:
    """Whether constraints are asked for by what solves, writes or transforms a model."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("pyomo.core", "lipyomo.blocks")):
            return name.startswith(("pyomo.", "lipyomo.")) and not name.startswith(_LOOKING)
        frame = frame.f_back
    return False


def formulation_block(options: Any = None) -> Callable[[type], type]:
    """Declare a block as Pyomo does, with its documentation where people look for it.

    ``build_formulation`` of the decorated class builds all or nothing, and its arguments are kept.
    The names that Pyomo makes (``ReluNetworkBlock`` and its scalar and indexed kinds) get docstring
    and ``build_formulation`` of the decorated data class.

    Parameters
    ----------
    options : TypedDict, optional
        What ``build_formulation`` takes as further keywords.
    """

    def declare(data: Any) -> type:
        name = data.__name__.removesuffix("Data")
        write = data._formulate = vars(data)["build_formulation"]
        signature = _signature(write, options)

        @functools.wraps(write)
        def build(self: Any, *arguments: Any, **options: Any) -> None:
            if "input_norm" in options and "norm" in signature.parameters:
                deprecated("input_norm=", "norm=")
                options["norm"] = options.pop("input_norm")
            try:
                given = signature.bind(self, *arguments, **options).arguments
            except TypeError as error:
                _, *known = signature.parameters
                raise TypeError(f"{name}: {error}.  It takes {', '.join(known)}") from None
            self._build({key: value for key, value in given.items() if key != "self"})

        data.build_formulation = build
        vars(build)["__signature__"] = signature
        declare_custom_block(name=name)(data)
        component = component_of(data)
        indexed = component._indexed_custom_block
        for made in (component, component._scalar_custom_block, indexed):
            made.__doc__ = data.__doc__
        component.build_formulation, indexed.build_formulation = build, _of_each
        _take_arguments(component, data, set(signature.parameters))
        found: type = data
        return found

    return declare


def _of_each(block: Any, *arguments: Any, **options: Any) -> None:
    """Say that the members of an indexed block are built one by one."""
    raise ProblemError(f"'{block.name}' is indexed.  Remedy: build_formulation of each member")


def _signature(write: Any, options: Any) -> inspect.Signature:
    """The signature of a function with its further keywords by name."""
    found = inspect.signature(write)
    if options is None:
        return found
    *own, _ = found.parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(key, kind, default=...) for key in options.__annotations__]
    return found.replace(parameters=[*own, *more])


def _take_arguments(component: Any, data: Any, names: set[str]) -> None:
    """Let a component be built where it is constructed, beside the ways of Pyomo's own blocks."""

    def builds(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        return data._is_subject(arguments[0]) if arguments else bool(names & set(options))

    def new(cls: Any, *arguments: Any, **options: Any) -> Any:
        return CustomBlock.__new__(cls, *(() if builds(arguments, options) else arguments))

    def initialise(self: Any, *arguments: Any, **options: Any) -> None:
        built = builds(arguments, options)
        if "rule" in options if built else names & set(options):
            raise ProblemError(
                "a block is constructed of what it is about, or with an index and rule=.  Remedy: "
                "one of both; rule= is a function of the block and its key that calls "
                "build_formulation"
            )
        if not built:
            CustomBlock.__init__(self, *arguments, **options)
            return
        own = {name: options.pop(name) for name in ("name", "doc") if name in options}

        def build(block: Any) -> None:
            block.parent_component()._rule = None
            with all_or_nothing(block):
                block.build_formulation(*arguments, **options)

        CustomBlock.__init__(self, rule=build, **own)

    component.__new__, component.__init__ = new, initialise


def network_given(given: Any) -> Any:
    """A network from its file, once for all rebuilds; blocks and networks as they are.

    Raises
    ------
    ProblemError
        If it is neither.
    LipyomoError
        If the file cannot be read.
    """
    if isinstance(given, str | os.PathLike):
        from lipyomo.formats.onnx import load

        return load(given)
    if not isinstance(given, Network | BlockData):
        shown = f"'{given}'" if hasattr(given, "ctype") else brief(given)
        raise ProblemError(
            f"{shown} was given as a network.  Remedy: a Network, the path of an ONNX file, "
            "or a ReluNetworkBlock whose build_formulation was called"
        )
    return given


def _owner_of(component: Any) -> Any:
    """The block of this package that a component belongs to."""
    blocks = (b for b in enclosing(component) if isinstance(b, FormulationBlockData))
    return next(blocks, None)


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
        before = count
        for block in blocks:
            if block.stale() is not None:
                block.rebuild()
                count += 1
        if count == before:
            break
    return count
