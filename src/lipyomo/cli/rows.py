"""Shared parts of commands that process rows: workers, row files, progress."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipyomo.analyses.certification.data import OnnxSource, RowTask
from lipyomo.analyses.certification.tables import with_names
from lipyomo.base.digest import array_digest
from lipyomo.base.system.outputs import OutputError, shown
from lipyomo.base.system.rowfile import Row, RowFile
from lipyomo.cli.codes import Exit
from lipyomo.cli.data import read_data
from lipyomo.cli.interrupt import Leaving, Politely
from lipyomo.cli.options import SHOWN, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.streams import warn, wrote
from lipyomo.cli.words import UsageError
from lipyomo.formats.onnx import load
from lipyomo.networks.digest import network_digest
from lipyomo.problems.norms import OutputNorm

EXIT_CODES = """\
exit codes:
  0  every usable row was decided
  2  some rows are open, or Ctrl-C ended the run (finished rows are kept)
  1  the input was wrong, no row could be used, or a file could not be written
"""


@dataclass(frozen=True)
class Worked:
    """The results of the rows.

    Attributes
    ----------
    rows : list of dict
        The rows, in order.
    code : int
        The exit code.
    left : tuple of (str, str)
        Facts for the end of a summary: what is left to do, and how.
    """

    rows: list[Row]
    code: int
    left: tuple[tuple[str, str], ...]

    def finish(
        self,
        arguments: argparse.Namespace,
        record: object,
        show: Callable[[], None],
        plot: Callable[[], None] | None = None,
    ) -> int:
        """Print the result and what is left to do, and plot; return the exit code.

        Parameters
        ----------
        arguments : Namespace
        record : plain data
            The result, for ``--json``.
        show : callable
            Prints the result as text.
        plot : callable, optional
            Plots it, for ``--plot``.
        """
        if not arguments.json:
            show()
            show_facts(self.left)
        else:
            print(json.dumps(record, allow_nan=False))
            if not arguments.quiet:
                for name, fact in self.left:
                    print(f"{name}: {fact}", file=sys.stderr)
        if plot is not None and arguments.plot is not None and not wrote(plot):
            return Exit.FAILED
        return self.code


DIRECTIONS = ("wrt", "weights", "directions")
"""Options that most runs do not have."""


def rows_parser(name: str, description: str, epilog: str, time: tuple[float, str]) -> Parser:
    """Return a parser with the options of all commands on rows; `time` is (limit, of what)."""
    parser = Parser(f"lipyomo {name}", description, epilog)
    add_options(parser, "NET", "--config", "DATA")
    table = parser.add_argument_group("columns of a table")
    add_options(table, "--inputs", "--label-column")
    add_options(parser, "--output-node", "--fix")
    add_options(parser, "--clip", help="box of valid inputs")
    seconds, what = time
    add_options(parser, "--time-limit", default=seconds, help=f"seconds {what} ({seconds:g})")
    rows = parser.add_argument_group("rows")
    add_options(rows, "--first", "--workers")
    add_options(rows, "--dask", help="a dask scheduler to run on instead")
    add_options(rows, "--rows", *SHOWN)
    return parser


class RowsJob:
    """The network, the chosen rows of the data set, and the options.

    Parameters
    ----------
    arguments : Namespace
        Arguments from a `rows_parser`.

    Attributes
    ----------
    network : Network
    data : DataSet
        The first rows, as many as are asked for.
    whole : DataSet
        All rows.
    onnx : (Path, str or None, dict)
        The ONNX file for onnxruntime, the node at which it is cut, and fixed values of inputs.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        path, output, fixed = arguments.network, arguments.output, dict(arguments.fix)
        with Leaving():
            self.network = load(path, output=output, fixed=fixed)
        self.whole = read_data(
            arguments.data, self.network, arguments.inputs, arguments.label_column
        )
        width, size = self.whole.inputs.shape[1], self.network.input_dim
        if width != size:
            raise UsageError(
                f"none of the rows could be used: they have {width} entries, and the network takes "
                f"{size} inputs"
            )
        self.data = self.whole.first(arguments.first)
        self.network = with_names(self.network, self.data)
        self.onnx: OnnxSource = path, output, fixed

    def head(self, *names: str) -> Row:
        """Return what all rows depend on: the network, the data, the box, and named options.

        Arrays and norms are represented by digests; directions only if there are any.
        """
        data = self.whole
        content = [data.inputs, *([] if data.labels is None else [data.labels])]
        found: Row = {"network": network_digest(self.network), "data": array_digest(content)}
        asked = [name for name in DIRECTIONS if getattr(self.arguments, name, None) is not None]
        named = ("clip", *names, *asked)
        return found | {name: _stated(getattr(self.arguments, name)) for name in named}

    def decide(
        self,
        task: RowTask[Any, Any],
        jobs: Sequence[Any],
        columns: Sequence[str],
        head: Row,
        line: Callable[[Row], str],
    ) -> Worked:
        """Decide the rows of a task, whose jobs begin with their indices; see `work`."""

        def start(done: Collection[int]) -> Iterator[Row]:
            left = [job for job in jobs if job[0] not in done]
            return (row.to_dict() for row in task.run(left))

        def is_final(row: Row) -> bool:
            return row["verdict"] not in (None, "", "open")

        return self.work(columns, head, len(jobs), start, line, is_final)

    def work(
        self,
        columns: Sequence[str],
        head: Row,
        total: int,
        start: Callable[[Collection[int]], Iterator[Row]],
        line: Callable[[Row], str],
        is_final: Callable[[Row], bool],
    ) -> Worked:
        """Compute, print and write rows, except those finished in an earlier run.

        Parameters
        ----------
        columns : sequence of str
            Columns of a CSV file.
        head : dict
            What the rows depend on.
        total : int
            Number of rows.
        start : callable
            Takes the indices of finished rows, and generates the other rows as they finish.
        line : callable
            Formats a row as one line.
        is_final : callable
            Returns whether more time could not improve a row.

        Returns
        -------
        Worked

        Raises
        ------
        UsageError
            If all rows were tried and none could be used.
        """
        arguments = self.arguments
        rows: dict[int, Row] = {}
        file, done, stopped, unwritten = None, set[int](), False, False
        if arguments.rows is not None:
            file = RowFile(arguments.rows, columns, head, arguments.time_limit, is_final)
            rows = {index: row for index, row in file.rows.items() if index < total}
            done = file.done & rows.keys()
            if file.torn:
                warn(f"the last line of {shown(arguments.rows)} was torn, and is dropped")
        with ExitStack() as stack, Politely() as signals:
            report = row_progress(stack, arguments, total, len(done))
            try:
                for row in start(done):
                    if signals.asked and not is_final(row):
                        break  # it was cut short; the next run repeats it
                    rows[row["index"]] = row
                    if file is not None:
                        try:
                            file.add(row)
                        except OutputError as error:
                            if not unwritten:
                                warn(f"{error}; this is tried again with every row")
                            unwritten = True
                    report(line(row))
                    if signals.asked:
                        break
            except KeyboardInterrupt:
                stopped = True
            finally:
                written = file is None or wrote(file.close)
        stopped |= signals.asked
        ordered = [rows[index] for index in sorted(rows)]
        failed = sum(bool(row["error"]) for row in ordered)
        if ordered and not stopped and failed == len(ordered):
            raise UsageError(f"none of the rows could be used; the first: {ordered[0]['error']}")
        open_ = sum(not (row["error"] or is_final(row)) for row in ordered)
        code = Exit.FAILED if not written else Exit.OPEN if stopped or open_ else Exit.DONE
        return Worked(ordered, code, self._left(open_, total - len(ordered)))

    def _left(self, open_: int, missing: int) -> tuple[tuple[str, str], ...]:
        """Return what is left to do, and how."""
        arguments = self.arguments
        file = "" if arguments.rows is not None else " with --rows FILE"
        limit = f"{arguments.time_limit:g}"
        facts = []
        if missing:
            facts.append(("not done", f"{missing}; to go on: the same command again{file}"))
        if open_:
            way = f"the same command{file} and a larger --time-limit than {limit}"
            facts.append(("left open", f"{open_}; to go on: {way}"))
        return tuple(facts)

    def announce(self, *facts: tuple[str, object]) -> None:
        """Print how the data were interpreted, and other facts, before processing rows."""
        if self.arguments.json:
            return
        columns = self.data.columns
        show_facts([*([] if columns is None else [("columns", columns.describe())]), *facts])
        sys.stdout.flush()


def show_unusable(reasons: Mapping[str, int]) -> None:
    """Print why rows could not be used, the most frequent reasons first."""
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    show_facts(("", f"{many} unusable: {why}") for why, many in ordered[:REASONS])
    left = sum(many for _, many in ordered[REASONS:])
    if left:
        show_facts([("", f"{left} unusable for other reasons")])


REASONS = 4
"""Number of reasons that a summary lists."""


def _stated(value: Any) -> Any:
    """Return the value of an option as plain data, with digests of arrays and norms."""
    if isinstance(value, tuple):
        return [_stated(part) for part in value]
    if isinstance(value, OutputNorm):
        value = value.vertices(0)
    if isinstance(value, slice):
        return str(value)
    return array_digest([value]) if isinstance(value, np.ndarray) else value


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    for name, fact in facts:
        print(f"{name:<20}{fact}")


def _line_progress(total: int, done: int) -> Callable[[str], None]:
    """Return a function that prints rows line by line, with their number and the time left."""
    started, before = time.monotonic(), done

    def show(line: str) -> None:
        nonlocal done
        done += 1
        left = (time.monotonic() - started) / (done - before) * (total - done)
        print(f"{line}  ({done} of {total}, {left:.0f} s left)", file=sys.stderr, flush=True)

    return show


def row_progress(
    stack: ExitStack, arguments: argparse.Namespace, total: int, done: int
) -> Callable[[str], None]:
    """Return a function that shows a finished row and the time left, on stderr."""
    if arguments.quiet:
        return lambda line: None
    if done:
        print(f"{done} of {total} rows were there already", file=sys.stderr)
    if not sys.stderr.isatty():
        return _line_progress(total, done)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    columns = "rows", BarColumn(), MofNCompleteColumn(), Elapsed(), "left", Remaining()
    console = Console(stderr=True)
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    bar = progress.add_task("rows", total=total, completed=done)

    def show(line: str) -> None:
        progress.console.print(line, highlight=False, markup=False)
        progress.advance(bar)

    return show
