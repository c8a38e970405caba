"""Base class of all blocks: built once and atomically, rebuilt in place, checked before a solve.

A formulation relies on bounds of the given variables: big-M coefficients are derived from them, and
stable units have no switch.  Those bounds are stored in the block.  If one has become wider since,
whatever reads the block's constraints to solve them (a writer, a solver interface, a
transformation) gets an error instead of an invalid model.
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

from lipyomo.base.arguments import deprecated, instance
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
    """The arguments of a block, and the assumptions of its formulation.

    Attributes
    ----------
    recipe : dict
        Arguments of ``build_formulation``, for rebuilds.
    version : int
        How often the block was built.
    assumptions : list of Assumption or Unmoving
        Bounds that must still hold.
    grounds : list of (FormulationBlockData, int or None)
        Blocks that must be active; with a version if the block was built on them, which must not
        have changed.
    one_sided : list of OneSided
        Variables that are valid only if they are maximised, or minimised.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    assumptions: list[Assumption | Unmoving] = field(default_factory=list)
    grounds: list[tuple[Any, int | None]] = field(default_factory=list)
    one_sided: list[OneSided] = field(default_factory=list)


@dataclass(frozen=True)
class Draft:
    """The state of a build.

    Attributes
    ----------
    users : Users
        Bounds and values that users have set on variables of the block.
    kept : dict
        Components to be reused, by id of their block and name.
    foreign : set of int
        Ids of components that were added to the block by users.
    """

    users: Users = field(default_factory=Users)
    kept: dict[tuple[int, str], Any] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)


class FormulationBlockData(BlockData):
    """Base of the blocks of this package.

    Notes
    -----
    Subclasses implement ``build_formulation``, which checks its arguments first; the decorator
    `formulation_block` stores the arguments for rebuilds and makes the build atomic.
    """

    _RESULT: ClassVar[str] = "value"
    """Name of the component that is used where the block is passed as variables."""
    _formulate: ClassVar[Callable[..., None]]
    """``build_formulation`` of the subclass, not decorated."""
    _owned = False
    """Whether the block is a part of another one, and is rebuilt and checked by that."""
    _draft: Draft | None = None
    """Set during a build."""

    def __init__(self, component: Any) -> None:
        super().__init__(component)
        self._record = Record()
        self._written = WrittenParts()

    @property
    def is_built(self) -> bool:
        """Whether `build_formulation` was called."""
        return self._record.version > 0

    def rebuild(self) -> None:
        """Rebuild the constraints in place, for the current bounds of the variables.

        Variables and expressions stay the same objects.  Bounds that you have set on them are kept
        if they are narrower than the computed ones, and so are fixed values and components that you
        have added to the block.  Blocks that were built on this one must be rebuilt afterwards:
        `lipyomo.blocks.rebuild` does so for a whole model.

        Raises
        ------
        ProblemError
            If the block was not built yet, or a variable would be removed that you have bounded,
            fixed, or used in a constraint.
        LipyomoError
            As `build_formulation`; the block is then unchanged.
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
        # A trial build elsewhere: errors there change nothing, and it shows what would be removed.
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
        carried = [self]  # and the blocks that were built on it
        for block in blocks:
            if isinstance(block, FormulationBlockData):
                grounds = block._record.grounds
                if any(other is self and version is not None for other, version in grounds):
                    carried.append(block)
        check_unused(self, users, trial, carried)
        own = {id(item) for _, item in self._written.components}
        foreign = {id(item) for _, item in components_of(self)} - own
        self._write(recipe, Draft(users, self._written.take_out(), foreign))

    def _result(self) -> Any:
        """Return the component that is used where the block is passed as variables."""
        found = self.component(self._RESULT)
        if found is None:
            raise ProblemError(
                f"block '{self.name}' was given for its '{self._RESULT}', which it does not have.  "
                "Remedy: build it first; of a whole Jacobian give one row, block.row[k]"
            )
        return found

    def stale(self) -> str | None:
        """Return a message on an assumption of the block that no longer holds; None if all do."""
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
        """Return whether the first argument of a constructor is a subject, not an index set."""
        # A variable is no index set either: build_formulation will refuse it.
        is_variable = getattr(given, "ctype", None) is pyo.Var
        return is_variable or isinstance(given, Network | BlockData | str | os.PathLike)

    def _build(self, arguments: dict[str, Any]) -> None:
        """Build the constraints; on an error, the block is unchanged.

        Raises
        ------
        ProblemError
            If the block was built already.
        """
        if self.is_built:
            raise ProblemError(
                f"block '{self.name}' is built already.  Remedy: call rebuild() when bounds have "
                "changed, or make a new block"
            )
        # The content of a slice may change later; the block keeps the current variables.
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
        """Build the constraints and record their assumptions."""
        self._record, self._draft = Record(recipe, self._record.version + 1), draft
        try:
            with PauseGC():
                self._formulate(**recipe)
                self._written = WrittenParts.under(self, draft.foreign, draft.users)
        finally:
            self.__dict__.pop("_draft")

    def _rely_on(self, variable: Any, lower: float, upper: float) -> None:
        """Record bounds that the formulation relies on."""
        self._record.assumptions.append(Assumption(variable, lower, upper))

    def _rely_on_bounds(self, variables: list[Any]) -> None:
        """Record the current bounds of variables as assumptions."""
        for variable in variables:
            self._rely_on(variable, *ends_of(*variable.bounds))

    def _rely_on_block(self, other: Any) -> None:
        """Record the version of another block that this one is built on."""
        self._record.grounds.append((other, other._record.version))

    def _rely_on_owners(self, variables: Iterable[Any]) -> None:
        """Record the blocks that own the given variables: they must be active."""
        owners = {id(owner): owner for owner in map(_owner_of, variables) if owner is not None}
        others = [(owner, None) for owner in owners.values() if owner is not self]
        self._record.grounds.extend(others)

    def _make_part(self, name: str, data: Any, **arguments: Any) -> Any:
        """Declare and build ``self.name``, a part that is rebuilt and checked with this block."""
        return self._own(declared(self, name, component_of(data)), **arguments)

    def _own(self, part: Any, **arguments: Any) -> Any:
        """Build a block, declared under this one, as a part of it."""
        part._owned = True
        part._record = Record(arguments, part._record.version + 1)
        part._formulate(**arguments)
        self._record.grounds.append((part, None))
        return part

    def _adopt(self, component: Any) -> None:
        """Register a component as written by this block, so that a rebuild removes it."""
        owner: Any = self
        while owner._owned:
            owner = _owner_of(owner)
        owner._written.components.append((component.parent_block(), component))

    def _component_data_itervalues(
        self, ctype: Any, active: Any, sort: Any, dedup: Any
    ) -> Iterator[Any]:
        """Iterate over components as Pyomo does, after a check if these are active constraints.

        All writers and solver interfaces read constraints by this method.
        """
        kinds = ctype if isinstance(ctype, list | tuple | set | frozenset) else (ctype,)
        if active and self.is_built and pyo.Constraint in kinds and _compiled():
            self._check()
            # The model is checked once for all blocks of one iteration.
            root = self.model()
            if self._record.one_sided and not self._owned and id(root) not in dedup.seen_data:
                dedup.seen_data.add(id(root))
                check_use(root)
        yield from super()._component_data_itervalues(ctype, active, sort, dedup)

    def _check(self) -> None:
        """Raise an error if assumptions no longer hold, before the constraints are solved."""
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
"""Packages of Pyomo that read constraints but do not solve, write or transform them."""


def _compiled() -> bool:
    """Return whether the calling module solves, writes or transforms models."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("pyomo.core", "lipyomo.blocks")):
            return name.startswith(("pyomo.", "lipyomo.")) and not name.startswith(_LOOKING)
        frame = frame.f_back
    return False


def formulation_block(options: Any = None) -> Callable[[type], type]:
    """Return a decorator that declares a custom block of Pyomo, with documentation.

    ``build_formulation`` of the decorated class becomes atomic, and its arguments are stored.
    The classes that Pyomo creates (``ReluNetworkBlock`` and its scalar and indexed variants) get
    the docstring and ``build_formulation`` of the decorated data class.

    Parameters
    ----------
    options : TypedDict, optional
        Further keywords of ``build_formulation``.
    """

    def declare(data: Any) -> type:
        name = data.__name__.removesuffix("Data")
        write = data._formulate = vars(data)["build_formulation"]
        signature = inspect.signature(write)
        if options is not None:  # with the names of its further keywords
            *own, _ = signature.parameters.values()
            kind = inspect.Parameter.KEYWORD_ONLY
            more = [inspect.Parameter(key, kind, default=...) for key in options.__annotations__]
            signature = signature.replace(parameters=[*own, *more])

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
    """Raise an error, since the members of an indexed block are built one by one."""
    raise ProblemError(f"'{block.name}' is indexed.  Remedy: build_formulation of each member")


def _take_arguments(component: Any, data: Any, names: set[str]) -> None:
    """Let the constructor accept the arguments of ``build_formulation``, or those of Pyomo."""

    def builds(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        return data._is_subject(arguments[0]) if arguments else bool(names & set(options))

    def new(cls: Any, *arguments: Any, **options: Any) -> Any:
        return CustomBlock.__new__(cls, *(() if builds(arguments, options) else arguments))

    def initialise(self: Any, *arguments: Any, **options: Any) -> None:
        if not builds(arguments, options):
            CustomBlock.__init__(self, *arguments, **options)
            return
        own = {name: options.pop(name) for name in ("name", "doc") if name in options}

        # a partial function: its arguments are copied when an abstract model makes an instance
        CustomBlock.__init__(self, rule=functools.partial(_built, arguments, options), **own)

    component.__new__, component.__init__ = new, initialise


def _built(arguments: tuple[Any, ...], options: dict[str, Any], block: Any) -> None:
    """Build a block with the arguments of its constructor."""
    block.parent_component()._rule = None
    with all_or_nothing(block):
        block.build_formulation(*arguments, **options)


def network_given(given: Any) -> Any:
    """Load a network from its file, once for all rebuilds; return anything else unchanged.

    Raises
    ------
    LipyomoError
        If the file cannot be read.
    """
    if isinstance(given, str | os.PathLike):
        from lipyomo.formats.onnx import load

        return load(given)
    return given


def _owner_of(component: Any) -> Any:
    """Return the innermost block of this package that contains a component."""
    blocks = (b for b in enclosing(component) if isinstance(b, FormulationBlockData))
    return next(blocks, None)


def rebuild(model: Any) -> int:
    """Rebuild, in place, the blocks of a model whose assumptions no longer hold.

    Parameters
    ----------
    model : BlockData
        A model, or any block in it.

    Returns
    -------
    int
        Number of rebuilds.

    Raises
    ------
    LipyomoError
        If a block cannot be built for the current bounds, for instance because they are infinite;
        that block, and those that depend on it, are unchanged.

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
    # A rebuild may widen the bounds of outputs on which other blocks rely: repeat until none is.
    for _ in range(len(blocks) + 1):
        before = count
        for block in blocks:
            if block.stale() is not None:
                block.rebuild()
                count += 1
        if count == before:
            break
    return count
