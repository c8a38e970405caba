"""The main job: from an ONNX file and options to a checked interval."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lipyomo.analyses.api import choose_method, solve, without_methods
from lipyomo.analyses.questions.several import largest_value, solve_largest
from lipyomo.base.clock import Clock
from lipyomo.base.decimals import interval
from lipyomo.base.errors import ImportNote, NormError, ProblemError, SolverError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.imports import importing
from lipyomo.base.system.memory import limit_memory
from lipyomo.cli.codes import Exit, worst
from lipyomo.cli.interrupt import Interruption
from lipyomo.cli.live import live_line
from lipyomo.cli.problems import SeveralDomains, problem_on, read_domains, read_notes
from lipyomo.cli.proving import Stop, check_provable, prove_constant, write_beside
from lipyomo.cli.settings import check_kept, read_settings
from lipyomo.cli.show import show, write_history
from lipyomo.cli.source import LEAST, network_given_by
from lipyomo.cli.streams import answer_only, warn
from lipyomo.cli.values import read_options
from lipyomo.cli.words import UsageError
from lipyomo.methods.registry import get_method
from lipyomo.networks.building.budget import limits, spending
from lipyomo.problems.history import plot_history
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result, Status
from lipyomo.problems.settings import Settings

LIMITED = (Status.TIME_LIMIT, Status.INTERRUPTED)
"""Statuses of a search that more time would improve."""


def run(arguments: argparse.Namespace, started: float | None = None) -> int:
    """Run ``lipyomo NET ...``.

    Parameters
    ----------
    arguments : Namespace
        Arguments from `lipyomo.cli.options.main_parser`.
    started : float, optional
        Value of ``time.monotonic()`` when the command began: its time limit includes imports.

    Returns
    -------
    int
        Exit code: 0 for a result as asked for, 1 if a file could not be written, 2 for bounds only.

    Raises
    ------
    LipyomoError
        If the input is wrong.
    """
    with importing():
        get_method("bnb" if arguments.method == "auto" else arguments.method)
    check_kept(arguments)
    if arguments.prove_upper and arguments.proof is None:
        raise UsageError(
            "--prove-upper is about a proof, and there is none.  Remedy: add --proof FILE"
        )
    settings = replace(read_settings(arguments), started=started)
    clock = Clock(settings.time_limit, began=started)
    memory = arguments.memory_limit
    if memory is not None:
        limit_memory(memory)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", ImportNote)
        rounds = arguments.minus is not None
        given = network_given_by(arguments, max(clock.left, LEAST), memory, rounds)
    if given.quantised is not None:
        from lipyomo.cli.quantised import bound_values  # fifty modules needed only here

        said = [str(note.message) for note in notes if issubclass(note.category, ImportNote)]
        return bound_values(given, arguments, settings, said)
    domains = read_domains(arguments, given.input_dim)
    problems = [problem_on(arguments, given.network, domain) for domain in domains]
    _check_single(arguments, len(problems))
    if arguments.proof is not None:
        check_provable([problem.network for problem in problems])
    name = _method_name(arguments, choose_method(problems[0]))
    settings = replace(settings, options=read_options(arguments.option, get_method(name).options))
    if not arguments.quiet:
        _warn_unbounded(problems, name, settings)
    with spending(limits(max(clock.left, LEAST), memory)):
        difference = given.check(SeveralDomains(tuple(domains)))
    own = _for_constant(settings, arguments)
    result, interrupted, aborted = _solve(problems, name, own, arguments)
    problem = problems[result.details.get("part", 0)]
    result = result.noting(runtime_difference=difference)
    if arguments.minus is not None and not aborted:
        result = _with_largest(result, problems, interrupted, settings, arguments)
    messages = [str(note.message) for note in notes if issubclass(note.category, ImportNote)]
    result = result.noting(*messages, *read_notes(arguments))
    try:
        show(problem, result, arguments)
        sys.stdout.flush()
    finally:  # also if stdout was closed by its reader
        codes = _write_files(problem, result, arguments, aborted, given.only)
    codes.append(Exit.OPEN if aborted else exit_code(result, settings.gap))
    if result.details.get("largest_value", {}).get("status", Status.EXACT) in LIMITED:
        codes.append(Exit.OPEN)
    code = worst(codes)
    if aborted:
        # a solver may still be running in C code, and Python would wait for its thread
        sys.stderr.flush()
        os._exit(code)
    return code


def _warn_unbounded(problems: Sequence[LipschitzProblem], method: str, settings: Settings) -> None:
    """Warn before a search on an unbounded domain, which may take very long."""
    domain = problems[0].domain
    known = get_method(method)
    if all(one.domain.is_bounded for one in problems) or not known.unbounded:
        return
    if known.guarantee is not Guarantee.EXACT:
        return
    endless = ", and there is no --time-limit" if math.isinf(settings.time_limit) else ""
    warn(f"the domain is unbounded ({domain.describe()}): the interval may stay open{endless}")


def _write_files(
    problem: LipschitzProblem,
    result: Result,
    arguments: argparse.Namespace,
    aborted: bool,
    onnx: Path | None,
) -> list[int]:
    """Write the further output files; return exit codes."""
    codes: list[int] = []
    if "unwritten" in result.details:
        warn(result.details["unwritten"])
        codes.append(Exit.FAILED)

    files: dict[str, Callable[[Stop], object]] = {
        "history": lambda _: write_history(result, arguments.history),
        "plot": lambda _: plot_history(result, problem, arguments.plot),
        "proof": lambda stop: prove_constant(
            problem, result, arguments, stop, onnx, arguments.prove_upper
        ),
    }
    asked = {name: write for name, write in files.items() if getattr(arguments, name) is not None}
    return [*codes, *write_beside(asked, aborted)]


def _solve(
    problems: Sequence[LipschitzProblem],
    name: str,
    settings: Settings,
    arguments: argparse.Namespace,
) -> tuple[Result, bool, bool]:
    """Solve the problems while showing the live line.

    Also return whether one Ctrl-C ended the method, and whether a second one aborted it.
    """
    with answer_only(), Interruption() as interruption, live_line(arguments.quiet) as tracker:
        settings = replace(settings, progress=tracker.update, should_stop=interruption.requested)
        try:
            result = solve_largest(problems, name, settings)
            if arguments.cross_check is not None:
                others = replace(settings, started=None)
                result = cross_check(problems[0], name, others, result, arguments.cross_check)
        except KeyboardInterrupt:
            result = Result(
                lower=tracker.now.lower,
                upper=tracker.now.upper,
                status=Status.INTERRUPTED,
                method=name,
                seconds=tracker.now.seconds,
                warnings=[
                    *problems[0].notes,
                    "left at once: the interval is the last one reported, in floating point",
                ],
            )
            return result, True, True
    if interruption.insisted:
        result = result.noting("left at once: the interval is the last one that was proved")
    return result, interruption.requested(), interruption.insisted


def _for_constant(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Return settings that leave time for the largest value of a difference."""
    if arguments.minus is None or math.isinf(settings.time_limit):
        return settings
    began = time.monotonic() if settings.started is None else settings.started
    left = Clock(settings.time_limit, began=began).left
    return replace(settings, time_limit=settings.time_limit - 0.5 * left)


def _with_largest(
    result: Result,
    problems: Sequence[LipschitzProblem],
    interrupted: bool,
    settings: Settings,
    arguments: argparse.Namespace,
) -> Result:
    """Add to the result the largest difference of two networks' values, or why it is not known.

    After Ctrl-C only a rough bound is computed.
    """
    with answer_only(), Interruption() as interruption, live_line(arguments.quiet) as tracker:

        def stop() -> bool:
            return interrupted or interruption.requested()

        own = without_methods(settings)
        watched = replace(own, progress=tracker.update, should_stop=stop)
        try:
            return result.noting(largest_value=largest_value(problems, watched).to_dict())
        except KeyboardInterrupt:
            return result.noting("the largest value of the difference was left out")
        except (NormError, ProblemError) as error:
            return result.noting(f"the largest value of the difference is not known: {error}")


def _check_single(arguments: argparse.Namespace, count: int) -> None:
    """Refuse options that need a single domain if there are several."""
    if count > 1:
        for name in ("proof", "checkpoint", "cross_check"):
            if getattr(arguments, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} is about one domain, and {arguments.vnnlib.path} "
                    f"has {count} parts.  Remedy: choose one, for example --part 0"
                )


def _method_name(arguments: argparse.Namespace, automatic: str) -> str:
    """Resolve ``--method auto``: options of MIPs select the MIP."""
    if arguments.method != "auto":
        return str(arguments.method)
    asked = arguments.solver != "auto" or arguments.formulation != "auto"
    return "mip" if asked or arguments.cross_check is not None else automatic


def exit_code(result: Result, gap: float) -> int:
    """Return the exit code: 0 for a result as asked for, 2 for bounds only.

    Parameters
    ----------
    result : Result
    gap : float
        The relative gap that was asked for.
    """
    if result.status is Status.EXACT:
        return Exit.DONE
    if result.status is Status.GAP:
        return Exit.DONE if result.gap <= gap * (1 + 1e-9) else Exit.OPEN
    promised = result.guarantee is not Guarantee.EXACT and math.isfinite(result.value)
    return Exit.DONE if result.status is Status.BOUNDS and promised else Exit.OPEN


def cross_check(
    problem: LipschitzProblem, method: str, settings: Settings, first: Result, solver: str
) -> Result:
    """Solve with another solver; add its interval to the result as ``details['cross_check']``.

    Raises
    ------
    SolverError
        If the two intervals are disjoint, or the method used no solver.
    """
    if first.solver is None:
        raise SolverError(
            f"method {method} used no MIP or LP solver, so there is nothing to cross-check.  "
            "Remedy: leave out --cross-check, or choose --method mip"
        )
    second = solve(problem, method, replace(settings, solver=solver))
    slack = EXACT_TOLERANCE * max(abs(first.lower), abs(second.lower), 1e-9)
    if first.lower > second.upper + slack or second.lower > first.upper + slack:
        raise SolverError(
            f"the solvers disagree: {first.solver} says {interval(first.lower, first.upper)}, "
            f"{second.solver} says {interval(second.lower, second.upper)}.  Remedy: trust the "
            "larger lower end, which is attained, and report the model"
        )
    same = [f"both runs of the cross-check used {first.solver}"]
    agreement = {
        "solver": second.solver,
        "lower": second.lower,
        "upper": second.upper,
        "status": str(second.status),
        "seconds": second.seconds,
    }
    return first.noting(*same if second.solver == first.solver else (), cross_check=agreement)
