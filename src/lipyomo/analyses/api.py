"""`solve`, the main function of the library: from a problem to a checked interval."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from lipyomo.base.arguments import instance, warn_caller
from lipyomo.base.digest import array_digest
from lipyomo.base.errors import MethodError, ProblemError
from lipyomo.base.system.parallel import check_scheduler
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.methods.registry import run_method, was_interrupted
from lipyomo.networks.digest import network_digest
from lipyomo.networks.network import Network, check_two_slopes
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.base import domain_digest
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Result
from lipyomo.problems.settings import Settings, SettingsKeywords, changed, takes

logger = logging.getLogger(__name__)

_OF_METHODS = ("gap", "solver", "solvers_file", "formulation", "bounds", "rational", "options")
"""Settings that are used by methods only."""

_OF_CHECKPOINTS = ("checkpoint", "resume", "overwrite")


@takes(SettingsKeywords, one_thread=False)  # the guard's imports count
def solve(
    problem: LipschitzProblem,
    method: str = "auto",
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Result:
    """Bound, and where possible determine, a local Lipschitz constant.

    Parameters
    ----------
    problem : LipschitzProblem
    method : str, optional
        A name of the method table (``lipyomo.methods.methods()``); ``auto`` picks an exact one.
    settings : Settings, optional
    **changes
        Fields of `Settings` to set, such as ``time_limit=60`` or ``solver="gurobi"``.

    Returns
    -------
    Result

    Raises
    ------
    LipyomoError
        If the method cannot treat the problem or a setting is wrong.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[2.0], [-1.0]], [[1.0, 1.0]]])
    >>> problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 1, 1))
    >>> lipyomo.solve(problem).lower
    2.0
    """
    began = time.monotonic()  # the time limit includes first imports
    remedy = "give a LipschitzProblem, made of a network and a domain"
    instance(problem, LipschitzProblem, "the problem", ProblemError, remedy)
    instance(method, str, "method", MethodError, "a name of lipyomo.methods.methods(), or auto")
    chosen = chosen_settings(settings, changes)
    if chosen.started is None:
        chosen = replace(chosen, started=began)
    return _solved(problem, method, chosen)


@with_one_blas_thread
def _solved(problem: LipschitzProblem, method: str, chosen: Settings) -> Result:
    """Run a method, add remarks on unused settings, and print progress if asked for."""
    if chosen.rational:
        remedy = "leave it out; lower ends of others are enclosed in ball arithmetic in any case"
        check_two_slopes(problem.network, "rational", remedy, MethodError)
    name = choose_method(problem) if method == "auto" else method
    result = run_method(name, problem, _telling(chosen))
    if chosen.rational:
        from lipyomo.primal.regions.replay import confirmed

        result = confirmed(problem, result)
    warnings = [*result.warnings, *_unused(chosen, result)]
    notes = [note for note in problem.notes if note not in warnings]
    result = replace(result, warnings=[*notes, *warnings])
    if chosen.verbose:
        print(("\n" if _in_notebook() else "") + result.summary(), flush=True)
    return result


def chosen_settings(settings: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """Return the settings with some fields changed; check that solver and scheduler exist."""
    chosen = changed(Settings, settings, changes)
    if chosen.dask is not None:
        check_scheduler(chosen.dask, chosen.time_limit)
    if chosen.solver != "auto" or chosen.solvers_file is not None:
        from lipyomo.solvers.registry import resolve_settings

        table = resolve_settings(chosen.solvers_file)
        if chosen.solver != "auto":
            table.entry(chosen.solver)
    return chosen


def question_settings(
    settings: Settings | None, changes: Mapping[str, Any], solves: bool = False
) -> Settings:
    """Return the settings of an analysis that runs several searches.

    Parameters
    ----------
    settings, changes
        See `chosen_settings`.
    solves : bool, optional
        Whether `solve` runs them, so that settings of methods are used.

    Raises
    ------
    MethodError
        See `chosen_settings`.

    Warns
    -----
    UserWarning
        About settings that are not used.
    """
    chosen = chosen_settings(settings, changes)
    usual = Settings()
    idle = [name for name in _OF_METHODS if getattr(chosen, name) != getattr(usual, name)]
    if idle and not solves:
        warn_caller(f"not used by this question: {', '.join(idle)}", UserWarning)
    return replace(_telling(chosen), verbose=False) if chosen.verbose else chosen


def digests(**parts: Any) -> dict[str, str]:
    """Return digests of the parts of a question: networks, domains, arrays, texts, or tuples."""

    def of(part: Any) -> str:
        if isinstance(part, tuple):
            return " ".join(map(of, part))
        if isinstance(part, Network):
            return network_digest(part)
        if isinstance(part, Domain):
            return domain_digest(part)
        return part if isinstance(part, str) else array_digest(part)

    return {name: of(part) for name, part in parts.items()}


def without_methods(settings: Settings, keeps: bool = False) -> Settings:
    """Return settings for a search beside a method's, without those that only the method uses.

    The checkpoint belongs to the method as well, unless the search `keeps` it.
    """
    usual = Settings()
    names = _OF_METHODS if keeps else (*_OF_METHODS, *_OF_CHECKPOINTS)
    return replace(settings, **{name: getattr(usual, name) for name in names})


def _unused(settings: Settings, result: Result) -> list[str]:
    """Return remarks on settings that the method did not use."""
    idle = {
        "solver": settings.solver != "auto" and result.solver is None,
        "formulation": settings.formulation != "auto" and result.formulation is None,
        "executor": settings.executor is not None and result.method != "bnb",
        "dask": settings.dask is not None and result.method != "bnb",
        "checkpoint": settings.checkpoint is not None and result.method != "bnb",
    }
    return [
        f"{name} was not used: method {result.method} has no need of it"
        for name, unused in idle.items()
        if unused
    ]


def _telling(settings: Settings) -> Settings:
    """Return settings whose progress goes to the log, and to standard output if verbose."""
    longest = 0

    def show(progress: Progress) -> None:
        nonlocal longest
        if settings.verbose and _in_notebook():  # one line that is overwritten
            line = str(progress)
            longest = max(longest, len(line))
            print(f"\r{line:<{longest}}", end="", flush=True)
        elif settings.verbose:
            print(progress, flush=True)
        logger.info("%s", progress)
        if settings.progress is not None:
            settings.progress(progress)

    wants_progress = settings.verbose or logger.isEnabledFor(logging.INFO)
    return replace(settings, progress=show) if wants_progress else settings


def _in_notebook() -> bool:
    """Return whether output appears below a notebook's cell, where a line can be overwritten."""
    shells = sys.modules.get("IPython")
    shell = None if shells is None else shells.get_ipython()
    return getattr(shell, "kernel", None) is not None


def choose_method(problem: LipschitzProblem) -> str:
    """Return the name of the default exact method for `problem`.

    Branch and bound accepts every norm and domain, and was faster than MIP on all reference
    networks and models (``python -m experiments exact``), so it is always chosen.
    """
    instance(problem, LipschitzProblem, "the problem", ProblemError, "give a LipschitzProblem")
    return "bnb"


def bound_until(
    problem: LipschitzProblem, method: str, below: float, above: float, seconds: float
) -> Result:
    """Solve until the constant is known to be less than `below`, or more than `above`.

    Parameters
    ----------
    problem : LipschitzProblem
    method : str
    below, above : float
    seconds : float
        Time limit.

    Returns
    -------
    Result
        Interrupted if this was decided before the method finished.

    Raises
    ------
    KeyboardInterrupt
        See `unless_interrupted`.
    """
    latest = [math.inf, 0.0]

    def watch(progress: Progress) -> None:
        latest[:] = progress.upper, progress.lower

    def decided() -> bool:
        return latest[0] < below or latest[1] > above

    settings = Settings(
        time_limit=seconds, progress=watch, should_stop=decided, workers=1, attain=False
    )
    result = solve(problem, method, settings)
    # Ctrl-C may come when only proofs are missing: then later rows are not started.
    return result if decided() and not result.stopped else unless_interrupted(result)


def unless_interrupted(result: Result) -> Result:
    """Return the result, or raise if it is due to Ctrl-C, so that no further row is started.

    Raises
    ------
    KeyboardInterrupt
    """
    if was_interrupted(result):
        raise KeyboardInterrupt
    return result
