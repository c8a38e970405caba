"""What commands that work through rows share: workers, row files, progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lipyomo.cli.parser import Parser, UsageError
from lipyomo.rowfile import RowFile


def add_rows_options(parser: Parser) -> None:
    """Add the options of commands that work through the rows of a data set."""
    rows = parser.add_argument_group("rows")
    rows.add_argument("--first", type=int, metavar="N", help="only the first rows")
    rows.add_argument("--workers", type=int, metavar="N", help="processes (one a core)")
    rows.add_argument("--dask", metavar="ADDRESS", help="a dask scheduler to run on instead")
    rows.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write rows to this .csv or .jsonl file as they finish; a second run goes on there",
    )
    rows.add_argument("--json", action="store_true", help="one JSON object on stdout")
    rows.add_argument("--quiet", action="store_true", help="no progress on stderr")
    rows.add_argument("--debug", action="store_true", help="show tracebacks")


def open_rows(
    stack: ExitStack, arguments: argparse.Namespace, columns: Sequence[str], head: dict[str, Any]
) -> RowFile | None:
    """The row file that ``--out`` names, open until the stack unwinds."""
    if arguments.first is not None and arguments.first < 1:
        raise UsageError(f"--first: at least one row, not {arguments.first}")
    if arguments.out is None:
        return None
    if not arguments.out.absolute().parent.is_dir():
        raise UsageError(f"--out: there is no folder '{arguments.out.parent}'")
    return stack.enter_context(RowFile(arguments.out, columns, head))


def row_progress(
    stack: ExitStack, arguments: argparse.Namespace, total: int, done: int
) -> Callable[[str], None]:
    """A function that tells a finished row and the time that is left, on stderr."""
    if arguments.quiet:
        return lambda line: None
    if done:
        print(f"{done} of {total} rows were there already", file=sys.stderr)
    if not sys.stderr.isatty():
        return lambda line: print(line, file=sys.stderr, flush=True)
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    progress = stack.enter_context(
        Progress(
            TextColumn("rows"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
    )
    bar = progress.add_task("rows", total=total, completed=done)

    def tell(line: str) -> None:
        progress.console.print(line, highlight=False, markup=False)
        progress.advance(bar)

    return tell
