"""What a caller can ask of any method; methods read what concerns them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import InitVar, dataclass, field
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from lipyomo.base.arguments import (
    brief,
    deprecated,
    duration,
    instance,
    one_of,
    real_number,
    whole_number,
)
from lipyomo.base.errors import MethodError
from lipyomo.base.kept import Kept
from lipyomo.problems.result import ProgressCallback

Formulation = Literal["auto", "adjoint", "tangent"]
Relaxation = Literal["auto", "interval", "linear", "lp"]


@dataclass(frozen=True)
class Settings:
    """Settings of one run.

    Attributes
    ----------
    time_limit : float
        Seconds of wall-clock time, or a text such as ``"5m"``; the best interval found is
        returned then.
    gap : float
        Relative gap at which to stop (LipMIP(x %) of the paper); 0 asks for the exact constant.
    workers : int, optional
        Processes of a search, or threads of a MIP solver; None leaves it to the method.
    executor : concurrent.futures.Executor, optional
        Where branch and bound searches subtrees, instead of in processes of its own.
    dask : str, optional
        Address of a dask scheduler that does so.
    checkpoint : Path, optional
        Where branch and bound writes its state, after a few seconds, every few minutes and when it
        ends.  A checkpoint that is there is an error without `resume` or `overwrite`.  For one
        search of several, the part of a file where it keeps its state.
    resume : bool
        Go on from the checkpoint, if the file exists.
    overwrite : bool
        Replace the checkpoint, if the file exists.
    seed : int
        Of all sampling; equal seeds and workers give equal answers.
    solver : str
        A name of ``solvers.toml`` or ``auto``.
    solvers_file : Path, optional
        Another ``solvers.toml``.
    check_claims : bool
        Whatever a solver claims to be the optimum is checked by branch and bound, for at most a
        fifth of the solver's time and 0.3 seconds, or for all that is left where tolerances put
        the claim in doubt; False takes it at its word.
    formulation : {'auto', 'adjoint', 'tangent'}
        MIP encoding of the gradient.
    bounds : {'auto', 'interval', 'linear', 'lp'}
        The tightest relaxation of pre-activations.
    attain : bool
        Methods that only bound from above begin with a short local search, for a lower end; it
        takes a few hundredths of a second on small networks, and a tenth of the time limit at most.
    rational : bool
        Recompute the witness in exact rational arithmetic as well.
    progress : callable, optional
        Called with `Progress` now and then.
    should_stop : callable, optional
        Polled; True ends the run as an interruption does.
    started : float, optional
        Value of ``time.monotonic()`` from which `time_limit` and all seconds count; by default the
        moment at which it is asked for.
    verbose : bool
        Print what happens: one line whenever the interval narrows, and the result.  In notebooks
        it is the same line again.
    options : dict
        Options of single methods, by name (``{'samples': 5000}``); unknown ones are errors.
    threads : int, optional
        `workers` by its name of version 0.3; deprecated.
    """

    time_limit: float = math.inf
    gap: float = 0.0
    workers: int | None = None
    executor: Executor | None = None
    dask: str | None = None
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
        limit = duration(self.time_limit, "the time limit (time_limit)", MethodError)
        object.__setattr__(self, "time_limit", limit)
        if not 0 <= real_number(self.gap, "gap", MethodError) < 1:
            raise MethodError(f"gap must be in [0, 1), not {self.gap}")
        if self.workers is not None:
            whole_number(self.workers, "workers", MethodError, least=1)
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
        remedy = "concurrent.futures.Executor"
        instance(self.executor, (Executor, NoneType), "executor", MethodError, remedy)
        instance(self.dask, (str, NoneType), "dask", MethodError, "the address of a scheduler")
        for name in ("attain", "check_claims", "rational", "verbose", "resume", "overwrite"):
            instance(getattr(self, name), bool, name, MethodError, "True or False")
        for name in ("progress", "should_stop"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise MethodError(f"{name} is {brief(getattr(self, name))}.  Remedy: a function")
        for name, kind in (("formulation", Formulation), ("bounds", Relaxation)):
            one_of(getattr(self, name), get_args(kind), name, MethodError)
