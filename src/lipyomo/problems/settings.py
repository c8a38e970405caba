"""Settings of all methods; each method reads those that concern it.

Public functions take the fields of settings as keywords, by `Unpack` of a table such as
`SettingsKeywords`.  The table has the types that users may pass, the fields those that are stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import InitVar, dataclass, field, replace
from functools import wraps
from inspect import Parameter, cleandoc, signature
from os import PathLike
from pathlib import Path
from textwrap import fill, indent
from types import NoneType
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, get_args

from lipyomo.base.arguments import (
    brief,
    deprecated,
    duration,
    instance,
    one_of,
    real_number,
    whole_number,
)
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError, UnknownKeyword, nearest_name
from lipyomo.base.kept import Kept
from lipyomo.base.system.parallel import Workers
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.problems.result import ProgressCallback

Formulation = Literal["auto", "adjoint", "tangent"]
Relaxation = Literal["auto", "interval", "linear", "lp"]


class WorkKeywords(TypedDict, total=False):
    """Fields of `Work` as keywords."""

    time_limit: float | str
    workers: int | None
    executor: Executor | None
    dask: str | None


@dataclass(frozen=True, kw_only=True)
class Work:
    """Settings that all public functions share: the time limit, and where the work is done.

    Attributes
    ----------
    time_limit : float
        Seconds of wall-clock time, or a text such as ``"5m"``.
    workers : int, optional
        Number of processes, by default one per core; 1 runs everything in this process.
    executor : concurrent.futures.Executor, optional
        An executor to use instead, such as ``distributed.Client(...).get_executor()`` or
        ``mpi4py.futures.MPIPoolExecutor()``.
    dask : str, optional
        Address of a dask scheduler to run on (extra ``[dask]``).
    """

    time_limit: float = math.inf
    workers: int | None = None
    executor: Executor | None = None
    dask: str | None = None

    def __post_init__(self) -> None:
        limit = duration(self.time_limit, MethodError)
        object.__setattr__(self, "time_limit", limit)
        if self.workers is not None:
            whole_number(self.workers, "workers", MethodError, least=1)
        remedy = "concurrent.futures.Executor"
        instance(self.executor, (Executor, NoneType), "executor", MethodError, remedy)
        instance(self.dask, (str, NoneType), "dask", MethodError, "the address of a scheduler")

    def pool(self, jobs: int | None) -> Workers[Any, Any]:
        """Return the workers for a number of jobs, if it is known."""
        asked = self.workers, self.executor, self.dask, jobs
        return Workers(*asked, time_limit=self.time_limit)

    def workers_within(self, clock: Clock) -> Workers[Any, Any] | None:
        """Return the workers of a search within a clock's time; None if it runs in this process."""
        if self.executor is None and self.dask is None and (self.workers or 1) == 1:
            return None
        asked = self.workers, self.executor, self.dask
        return Workers(*asked, helping=True, time_limit=clock.left)


class SettingsKeywords(WorkKeywords, total=False):
    """Fields of `Settings` as keywords."""

    gap: float
    checkpoint: str | PathLike[str] | Kept | None
    resume: bool
    overwrite: bool
    seed: int
    solver: str
    solvers_file: str | PathLike[str] | None
    check_claims: bool
    formulation: Formulation
    bounds: Relaxation
    attain: bool
    rational: bool
    progress: ProgressCallback | None
    should_stop: Callable[[], bool] | None
    started: float | None
    verbose: bool
    options: Mapping[str, Any]
    threads: int | None


@dataclass(frozen=True)
class Settings(Work):
    """Settings of one run.

    Attributes
    ----------
    time_limit : float
        Seconds of wall-clock time, or a text such as ``"5m"``; after it the best interval found is
        returned.
    gap : float
        Relative gap at which to stop (LipMIP(x %) of the paper); 0 asks for the exact constant.
    workers : int, optional
        Processes of a search, or threads of a MIP solver; None leaves it to the method.
    executor : concurrent.futures.Executor, optional
        Executor for subtrees of branch and bound, instead of its own processes.
    dask : str, optional
        Address of a dask scheduler for the same purpose.
    checkpoint : Path, optional
        File to which branch and bound writes its state, after a few seconds, every few minutes and
        at the end.  An existing checkpoint is an error without `resume` or `overwrite`.  For one
        search of several it is the part of a file for its state.
    resume : bool
        Continue from the checkpoint, if the file exists.
    overwrite : bool
        Replace the checkpoint, if the file exists.
    seed : int
        Seed of all sampling; equal seeds and workers give equal results.
    solver : str
        A name of ``solvers.toml`` or ``auto``.
    solvers_file : Path, optional
        Another ``solvers.toml``.
    check_claims : bool
        Whether to check a solver's claim of optimality by branch and bound, for at most a fifth of
        the solver's time plus 0.3 seconds, or for all the time left if tolerances make the claim
        doubtful.  False accepts the claim.
    formulation : {'auto', 'adjoint', 'tangent'}
        MIP encoding of the gradient.
    bounds : {'auto', 'interval', 'linear', 'lp'}
        The tightest relaxation of pre-activations.
    attain : bool
        Whether methods that only bound from above start with a short local search for a lower
        bound; it takes a few hundredths of a second on small networks, and at most a tenth of the
        time limit.
    rational : bool
        Whether to recompute the witness in exact rational arithmetic as well.
    progress : callable, optional
        Called regularly with `Progress`.
    should_stop : callable, optional
        Polled; True ends the run like an interruption.
    started : float, optional
        Value of ``time.monotonic()`` from which `time_limit` and all seconds count; by default the
        time of the call.
    verbose : bool
        Print a line whenever the interval narrows, and the result.  In notebooks the same line is
        updated.
    options : dict
        Options of single methods, by name (``{'samples': 5000}``); unknown ones are errors.
    threads : int, optional
        `workers` by its name of version 0.3; deprecated.
    """

    time_limit: float = math.inf
    gap: float = 0.0
    checkpoint: Path | Kept | None = None
    resume: bool = False
    overwrite: bool = False
    seed: int = 0
    solver: str = "auto"
    solvers_file: Path | None = None
    check_claims: bool = True
    formulation: Formulation = "auto"
    bounds: Relaxation = "auto"
    attain: bool = True
    rational: bool = False
    progress: ProgressCallback | None = None
    should_stop: Callable[[], bool] | None = None
    started: float | None = None
    verbose: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    threads: InitVar[int | None] = None

    def __post_init__(self, threads: int | None) -> None:
        if threads is not None:
            deprecated("threads=", "workers=")
            object.__setattr__(self, "workers", threads)
        super().__post_init__()
        check_gap(self.gap)
        whole_number(self.seed, "seed", MethodError)
        instance(self.solver, str, "solver", MethodError, "a name of solvers.toml, or auto")
        instance(self.options, Mapping, "options", MethodError, "a dict such as {'samples': 5000}")
        for name in ("solvers_file", "checkpoint"):
            path = getattr(self, name)
            if not isinstance(path, (NoneType, Kept)):
                instance(path, (str, PathLike), name, MethodError, "the path of a file")
                object.__setattr__(self, name, Path(path))
        if self.resume and self.checkpoint is None:
            raise MethodError("resume needs to know from where.  Remedy: give a checkpoint")
        if self.overwrite and (self.resume or self.checkpoint is None):
            raise MethodError("overwrite is about a checkpoint that is there, and not with resume")
        if self.started is not None:
            real_number(self.started, "started", MethodError)
        for name in ("attain", "check_claims", "rational", "verbose", "resume", "overwrite"):
            instance(getattr(self, name), bool, name, MethodError, "True or False")
        for name in ("progress", "should_stop"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise MethodError(f"{name} is {brief(getattr(self, name))}.  Remedy: a function")
        for name, kind in (("formulation", Formulation), ("bounds", Relaxation)):
            one_of(getattr(self, name), get_args(kind), name, MethodError)

    def within_gap(self, lower: float, upper: float) -> bool:
        """Return whether an interval has the requested gap, if one was requested."""
        return self.gap > 0.0 and upper - lower <= self.gap * upper

    def keeping(self, kept: Kept | None) -> Settings:
        """Return settings for one search of several, which keeps its state in `kept`."""
        return replace(self, checkpoint=kept, resume=False, overwrite=False)


FORMER = frozenset({"threads"})
"""Deprecated fields, accepted with a warning."""

Chosen = TypeVar("Chosen", bound=Work)
Taken = ParamSpec("Taken")
Value = TypeVar("Value")


def check_gap(gap: float) -> None:
    """Raise `MethodError` for a relative gap outside of [0, 1)."""
    if not 0 <= real_number(gap, "gap", MethodError) < 1:
        raise MethodError(f"gap must be in [0, 1), not {gap}")


def changed(kind: type[Chosen], given: Chosen | None, keywords: Mapping[str, Any]) -> Chosen:
    """Return settings of a kind with some fields changed.

    Raises
    ------
    MethodError
        If `given` is not of this kind, or a value is wrong.
    """
    if given is not None:
        remedy = f"give a {kind.__name__}, or its fields as keywords"
        instance(given, kind, "settings", MethodError, remedy)
    return replace(given or kind(), **keywords)


def takes(
    table: type, one_thread: bool = True
) -> Callable[[Callable[Taken, Value]], Callable[Taken, Value]]:
    """Decorate a question with ``**keywords`` to check and document them by a table.

    By default it runs with one BLAS thread.

    Keywords that are neither its own nor in the table raise `UnknownKeyword` with the nearest name.
    The table is listed in the docstring at the parameter with two stars.
    """
    starred = r"(\n(?:\w+, )*\*\*\w+[^\n]*(?:\n {4}[^\n]*)+)"
    listed = [name for name in table.__annotations__ if name not in FORMER]
    text = indent(fill(f"Keywords: {', '.join(listed)}.", 91), " " * 4)

    def declared(question: Callable[Taken, Value]) -> Callable[Taken, Value]:
        parameters = signature(question).parameters.values()
        own = [each.name for each in parameters if each.kind != Parameter.VAR_KEYWORD]

        guarded = with_one_blas_thread(question) if one_thread else question

        @wraps(guarded)
        def checked(*args: Taken.args, **kwargs: Taken.kwargs) -> Value:
            unknown = sorted(set(kwargs).difference(own, table.__annotations__))
            if unknown:
                known = [*own, *listed]
                hint = nearest_name(unknown[0], known, f"use one of {', '.join(known)}", "{}")
                raise UnknownKeyword(f"there is no keyword {', '.join(unknown)}.  Remedy: {hint}")
            return guarded(*args, **kwargs)

        checked.__doc__ = re.sub(starred, rf"\1\n{text}", cleandoc(question.__doc__ or ""), count=1)
        return checked

    return declared
