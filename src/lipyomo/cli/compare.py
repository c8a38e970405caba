"""``lipyomo compare``: several methods on several networks, side by side."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lipyomo.analyses.compare import (
    Row,
    compare,
    plot_rows,
    reference_interval,
    to_csv,
    to_json,
    with_errors,
)
from lipyomo.analyses.compare.run import error_text, width_text
from lipyomo.base.decimals import down, interval, seconds, up
from lipyomo.cli.codes import Exit
from lipyomo.cli.interrupt import Interruption, Leaving
from lipyomo.cli.options import add_domain, add_norms, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.problems import problem_on, read_domain
from lipyomo.cli.settings import read_settings
from lipyomo.cli.source import Source
from lipyomo.cli.streams import wrote
from lipyomo.cli.tables import print_table
from lipyomo.cli.values import read_options
from lipyomo.cli.words import UsageError
from lipyomo.methods.registry import get_method
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import DEFECT

STOPPING = b"lipyomo: stopping the methods; Ctrl-C again leaves at once\n"
HEAD = ("method", "guarantee", "value", "error", "time", "status")
EPILOG = """\
The error is relative to the exact value, or at least that (*) where no method found
it: then it is the distance to the nearer end of the best interval.

exit codes: 0 every method came to an end; 1 none gave an answer, or the input was
wrong; 2 stopped by Ctrl-C, which shows what there is

example:
  lipyomo compare net.onnx --box 0,1 --methods naive,fastlip,lp,bnb
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo compare`` with these arguments; return the exit code."""
    arguments = _parser().parse_args(words)
    if arguments.methods == ():
        raise UsageError("--methods: no method is named.  Remedy: see 'lipyomo methods'")
    chosen = None if arguments.methods is None else list(dict.fromkeys(arguments.methods))
    settings, options = read_settings(arguments), _options(arguments.option)
    with Leaving():
        problems = [_problem(path, arguments) for path in arguments.networks]
    panels: list[list[Row]] = []
    with Interruption(STOPPING) as interruption:
        settings = replace(settings, should_stop=interruption.requested)
        report = _teller(arguments.quiet)
        for problem in problems:
            if interruption.requested():
                break
            panels.append([])
            rows = compare(
                problem,
                chosen,
                arguments.time_limit,
                settings,
                options,
                arguments.memory_limit,
                arguments.jobs,
            )
            # closing the generator kills methods that are still running
            running = cast(Generator[Row, None, None], rows)
            with contextlib.closing(running), contextlib.suppress(KeyboardInterrupt):
                for row in running:
                    panels[-1].append(row)
                    report(row)
    complete = _show([with_errors(panel) for panel in panels if panel], arguments)
    if not complete:
        return Exit.FAILED
    if interruption.requested():
        return Exit.OPEN
    return Exit.DONE if any(row.has_answer for panel in panels for row in panel) else Exit.FAILED


def _parser() -> Parser:
    parser = Parser(
        "lipyomo compare",
        "Several methods on several networks, each in a process of its own.",
        EPILOG,
    )
    add_options(parser, "NET", dest="networks", nargs="+", help="ONNX files")
    add_options(parser, "--output-node", "--fix", "--config")
    add_norms(parser)
    add_domain(parser)
    methods = parser.add_argument_group("methods")
    add_options(methods, "--methods")
    add_options(methods, "--option", metavar="METHOD.NAME=VALUE")
    add_options(methods, "--time-limit", default=60.0, help="of each method (60)")
    add_options(methods, "--memory-limit", help="of each method")
    add_options(methods, "--jobs")
    add_options(methods, "--workers", help="processes or threads of each method (1)")
    add_options(methods, "--dask", help="where methods that search share their work instead")
    add_options(methods, "--solver", "--solvers-file", "--seed")
    report = parser.add_argument_group("report")
    form = report.add_mutually_exclusive_group()
    add_options(form, "--json", help="a JSON list on stdout")
    form.add_argument("--csv", action="store_true", help="comma-separated values on stdout")
    add_options(report, "--plot", help="draw the values on a log axis")
    add_options(report, "--quiet", "--debug")
    return parser


def _problem(path: Path, arguments: argparse.Namespace) -> LipschitzProblem:
    source = Source(path, arguments.output, dict(arguments.fix))
    network = source.load(memory_limit=arguments.memory_limit)
    problem = problem_on(arguments, network, read_domain(arguments, network.input_dim))
    source.check(network, problem.domain)
    return problem


def _options(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read options METHOD.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        method, dot, rest = word.partition(".")
        if not dot:
            raise UsageError(f"--option: '{word}' is not of the form METHOD.NAME=VALUE")
        own = get_method(method).options
        options = read_options([rest], own)
        if not set(options) <= set(own):
            known = ", ".join(own) or "none"
            raise UsageError(
                f"--option: '{word}': method {method} has no such option (it has {known})"
            )
        found.setdefault(method, {}).update(options)
    return found


def _teller(quiet: bool) -> Callable[[Row], None]:
    """Return a function that prints each row as a line on stderr, under one header.

    Errors are not printed, since they are relative to the results of all methods.
    """
    waiting = [HEAD]

    def show(row: Row) -> None:
        for method, guarantee, found, _, taken, status in (*waiting, _cells(row)):
            print(f"{method:<14}{guarantee:<11}{found:<26}{taken:<9}{status}", file=sys.stderr)
        waiting.clear()

    return (lambda row: None) if quiet else show


def _cells(row: Row, open_: bool = False) -> tuple[str, ...]:
    """Format a row; the value is rounded in the direction in which it is a bound."""
    value = "-"
    if row.value is not None:
        value = up(row.value, 7) if row.guarantee == "upper" else down(row.value, 7)
        if row.guarantee == "exact" and row.status != "exact":
            value = interval(row.lower, row.upper, 7)
    error = width_text(row.lower, row.upper) if row.is_open else error_text(row.error, open_) or "-"
    failed = row.status in ("refused", "failed", "killed", "interrupted")
    status = f"{row.status}: {row.message}" if failed and row.message else row.status
    return (row.method, row.guarantee, value, error, seconds(row.seconds), status)


def _show(panels: Sequence[Sequence[Row]], arguments: argparse.Namespace) -> bool:
    """Print and plot the rows; return False if the picture could not be written."""
    rows = [row for panel in panels for row in panel]
    if arguments.json:
        print(to_json(rows))
    elif arguments.csv:
        print(to_csv(rows), end="")
    else:
        for panel in panels:
            lower, upper = reference_interval(panel)
            print(f"{panel[0].network}, {panel[0].norms}: {interval(lower, upper)}")
            if lower > upper:
                print(f"the methods contradict each other.  {DEFECT}")
            print_table(HEAD, [_cells(row, lower < upper) for row in panel])
            if lower < upper and any(row.error is not None for row in panel):
                print("* at least: no method was exact")
            print()
    if arguments.plot is not None and any(row.value for row in rows):
        return wrote(lambda: plot_rows(rows, arguments.plot))
    return True
