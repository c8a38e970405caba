"""``lipyomo compare``: several methods on several networks, side by side."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from lipyomo.cli.inputs import read_options, read_problem
from lipyomo.cli.parser import Parser, UsageError, add_problem
from lipyomo.cli.tables import print_table
from lipyomo.compare import (
    Row,
    compare,
    plot_rows,
    reference_interval,
    to_csv,
    to_json,
    with_errors,
)
from lipyomo.decimals import down, seconds, up
from lipyomo.methods.registry import get_method
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings

DONE, BOUNDS_ONLY = 0, 2
HEAD = ("method", "promise", "value", "error", "time", "status")
EPILOG = """\
The error is relative to the exact value if a method found it, else to the nearer end of the best
interval of all methods.  Ctrl-C shows what there is (exit code 2).

example:
  lipyomo compare net.onnx --box 0,1 --methods naive,fastlip,lp,bnb --time-limit 20
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo compare",
        "Several methods on several networks, each in a process of its own with its own limits.",
        EPILOG,
    )
    parser.add_argument("networks", metavar="NET", nargs="+", type=Path, help="ONNX files")
    parser.add_argument("--output", metavar="NODE", help="cut the graphs at this node or tensor")
    add_problem(parser)
    methods = parser.add_argument_group("methods")
    methods.add_argument("--methods", metavar="A,B,...", help="all that apply, if not given")
    methods.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="METHOD.NAME=VALUE",
        help="an option of a method; may be repeated",
    )
    methods.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="of each method (60)"
    )
    methods.add_argument("--memory-limit", type=float, metavar="MB", help="of each method")
    methods.add_argument("--jobs", type=int, default=1, metavar="N", help="methods at a time (1)")
    methods.add_argument("--threads", type=int, metavar="N", help="threads of each method")
    methods.add_argument("--solver", default="auto", metavar="NAME", help="see 'lipyomo solvers'")
    methods.add_argument(
        "--solvers", metavar="FILE", type=Path, help="another solvers.toml", dest="solvers_file"
    )
    methods.add_argument("--seed", type=int, default=0, metavar="N", help="of all sampling (0)")
    report = parser.add_argument_group("report")
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON list on stdout")
    form.add_argument("--csv", action="store_true", help="comma-separated values on stdout")
    report.add_argument("--plot", metavar="FILE", type=Path, help="draw the values on a log axis")
    report.add_argument("--quiet", action="store_true", help="no progress on stderr")
    report.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo compare`` with the words after it; returns the exit code."""
    arguments = _parser().parse_args(words)
    if arguments.jobs < 1:
        raise UsageError(f"--jobs: at least one method must run, not {arguments.jobs}")
    if arguments.memory_limit is not None and not arguments.memory_limit > 0:
        raise UsageError("--memory-limit must be positive")
    if arguments.plot is not None and not arguments.plot.absolute().parent.is_dir():
        raise UsageError(f"--plot: there is no folder '{arguments.plot.parent}'")
    settings = Settings(
        time_limit=arguments.time_limit,
        threads=arguments.threads,
        solver=arguments.solver,
        solvers_file=arguments.solvers_file,
        seed=arguments.seed,
    )
    names = None if arguments.methods is None else _names(arguments.methods)
    options = _options(arguments.option)
    problems = [_problem(path, arguments) for path in arguments.networks]
    panels: list[list[Row]] = []
    code = DONE
    try:
        for problem in problems:
            panels.append([])
            memory = arguments.memory_limit
            rows = compare(
                problem,
                names,
                arguments.time_limit,
                settings,
                options,
                None if memory is None else int(memory * 2**20),
                arguments.jobs,
            )
            # Closing the generator kills the methods that still run.
            running = cast(Generator[Row, None, None], rows)
            with contextlib.closing(running), _live(arguments) as told:
                for row in running:
                    panels[-1].append(row)
                    told(panels[-1])
    except KeyboardInterrupt:
        code = BOUNDS_ONLY
    _show([with_errors(panel) for panel in panels if panel], arguments)
    return code


def _problem(path: Path, arguments: argparse.Namespace) -> LipschitzProblem:
    from lipyomo.onnx import check_against_runtime, load

    network = load(path, output=arguments.output, check=False)
    problem = read_problem(arguments, network)
    check_against_runtime(network, path, domain=problem.domain, output=arguments.output)
    return problem


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--methods: no method is named.  Remedy: see 'lipyomo methods'")
    return list(dict.fromkeys(names))


def _options(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read METHOD.NAME=VALUE words."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        method, dot, rest = word.partition(".")
        if not dot:
            raise UsageError(f"--option: '{word}' is not of the form METHOD.NAME=VALUE")
        own = get_method(method).options
        options = read_options([rest], own)
        if not set(options) <= set(own):
            known = ", ".join(own) or "none"
            raise UsageError(f"--option: '{word}': method {method} has no such option ({known})")
        found.setdefault(method, {}).update(options)
    return found


@contextlib.contextmanager
def _live(arguments: argparse.Namespace) -> Iterator[Any]:
    """A function to call with the rows so far: a live table on terminals, else lines on stderr."""
    if arguments.quiet:
        yield lambda rows: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), transient=True) as live:
            yield lambda rows: live.update(_rich_table(with_errors(rows)))
    else:
        yield lambda rows: print(
            "  ".join(_cells(with_errors(rows)[-1])), file=sys.stderr, flush=True
        )


def _rich_table(rows: Sequence[Row]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(*HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    """A row as text; the value is rounded in the direction in which it is a bound."""
    value = "-"
    if row.value is not None:
        value = up(row.value, 7) if row.guarantee == "upper" else down(row.value, 7)
        if row.guarantee == "exact" and row.status != "exact":
            value = f"[{down(row.lower, 7)}, {up(row.upper, 7)}]"
    error = "-" if row.error is None else f"{100 * row.error:+.2f}%"
    failed = row.status in ("refused", "failed", "killed")
    status = f"{row.status}: {row.message}" if failed and row.message else row.status
    return (row.title, row.guarantee, value, error, seconds(row.seconds), status)


def _show(panels: Sequence[Sequence[Row]], arguments: argparse.Namespace) -> None:
    rows = [row for panel in panels for row in panel]
    if arguments.json:
        print(to_json(rows))
    elif arguments.csv:
        print(to_csv(rows), end="")
    else:
        for panel in panels:
            lower, upper = reference_interval(panel)
            print(f"{panel[0].network}, {panel[0].norms}: [{down(lower)}, {up(upper)}]")
            print_table(HEAD, [_cells(row) for row in panel])
            print()
    if arguments.plot is not None:
        plot_rows(rows, arguments.plot)
