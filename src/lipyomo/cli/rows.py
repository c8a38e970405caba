"""What commands that work through rows share: workers, row files, progress."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lipyomo.certification.report import OnnxSource
from lipyomo.cli.data import DataSet, read_data
from lipyomo.cli.inputs import Side, read_pair
from lipyomo.cli.parser import Parser, UsageError, add_output, check_file
from lipyomo.network import Network
from lipyomo.onnx import load
from lipyomo.proofs.digest import network_digest
from lipyomo.rowfile import Row, RowFile

DONE, OPEN = 0, 2
EXIT_CODES = """\
exit codes:
  0  every usable row was decided
  2  some rows are open, or Ctrl-C ended the run (rows that were finished are kept)
  1  the input was wrong, or no row could be used
"""


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
    add_output(rows)


def add_data_arguments(parser: Parser) -> None:
    """Add the network, the data set, and what both mean."""
    parser.add_argument("network", metavar="NET", type=Path, help="an ONNX file")
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        help=".npz, .npy or .csv: inputs, with or without labels (else the predicted classes)",
    )
    parser.add_argument("--output", metavar="NODE", help="cut the graph here (the logits)")
    parser.add_argument("--clip", metavar="LO,HI", help="box of valid inputs")


@dataclass(frozen=True)
class RowsJob:
    """The network, the rows of the data set that are meant, and the box of valid inputs.

    Attributes
    ----------
    network : Network
    data : DataSet
    clip : (lower, upper), optional
    onnx : Path or (Path, str)
        The file in which onnxruntime computes the network's outputs, and where it is cut.
    head : dict
        What all rows depend on: digests of network and data, the box.
    """

    network: Network
    data: DataSet
    clip: tuple[Side, Side] | None
    onnx: OnnxSource
    head: Row

    @classmethod
    def read(cls, arguments: argparse.Namespace) -> RowsJob:
        """Read what `add_data_arguments` asks for."""
        if arguments.first is not None and arguments.first < 1:
            raise UsageError(f"--first: at least one row, not {arguments.first}")
        network = load(arguments.network, output=arguments.output)
        data = read_data(arguments.data, network.input_dim)
        clip = None if arguments.clip is None else read_pair(arguments.clip, "--clip")
        content = [data.inputs, *([] if data.labels is None else [data.labels])]
        head = {
            "network": network_digest(network),
            "data": _digest(*content),
            "clip": arguments.clip,
        }
        name, output = arguments.network, arguments.output
        onnx = name if output is None else (name, output)
        return cls(network, data.first(arguments.first), clip, onnx, head)


def file_digest(path: Path | None) -> str | None:
    """Digest of a file that an option names, for the head of a row file."""
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.asarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def work_rows(
    arguments: argparse.Namespace,
    columns: Sequence[str],
    head: Row,
    total: int,
    start: Callable[[Collection[int]], Iterator[Row]],
    line: Callable[[Row], str],
) -> tuple[list[Row], bool]:
    """Compute rows, tell of them and write them; rows of an earlier run are not done again.

    Parameters
    ----------
    arguments : Namespace
        With the options of `add_rows_options`.
    columns : sequence of str
        Of a CSV file.
    head : dict
        What the rows depend on.
    total : int
        Their number.
    start : callable
        Takes the indices that are done; gives the others' rows as they finish.
    line : callable
        One line for a row.

    Returns
    -------
    rows : list of dict
        In order.
    stopped : bool
        Whether Ctrl-C ended the work.

    Raises
    ------
    UsageError
        If all rows were tried and none could be used.
    """
    rows: dict[int, Row] = {}
    with ExitStack() as stack:
        file = None
        if arguments.out is not None:
            check_file(arguments.out, "--out")
            file = stack.enter_context(RowFile(arguments.out, columns, head))
            rows = {index: row for index, row in file.rows.items() if index < total}
        told = row_progress(stack, arguments, total, len(rows))
        stopped = False
        try:
            for row in start(rows.keys()):
                rows[row["index"]] = row
                if file is not None:
                    file.add(row)
                told(line(row))
        except KeyboardInterrupt:
            stopped = True
    ordered = [rows[index] for index in sorted(rows)]
    if ordered and not stopped and all(row["error"] for row in ordered):
        raise UsageError(f"none of the rows could be used; the first: {ordered[0]['error']}")
    return ordered, stopped


def _teller(total: int, done: int) -> Callable[[str], None]:
    """Tells rows line by line, with how many there are and about how long the others take."""
    started, before = time.monotonic(), done

    def tell(line: str) -> None:
        nonlocal done
        done += 1
        left = (time.monotonic() - started) / (done - before) * (total - done)
        print(f"{line}  ({done} of {total}, {left:.0f} s left)", file=sys.stderr, flush=True)

    return tell


def row_progress(
    stack: ExitStack, arguments: argparse.Namespace, total: int, done: int
) -> Callable[[str], None]:
    """A function that tells a finished row and the time that is left, on stderr."""
    if arguments.quiet:
        return lambda line: None
    if done:
        print(f"{done} of {total} rows were there already", file=sys.stderr)
    if not sys.stderr.isatty():
        return _teller(total, done)
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
