"""``lipyomo monotone``: inputs with which an output grows or falls, over boxes around rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from lipyomo.certification.monotone import (
    TOLERANCE,
    MonotoneReport,
    MonotoneRow,
    Trend,
    monotone_task,
)
from lipyomo.cli.inputs import read_functional, read_side
from lipyomo.cli.parser import Parser, UsageError
from lipyomo.cli.plot import check_picture
from lipyomo.cli.rows import (
    DONE,
    EXIT_CODES,
    OPEN,
    RowsJob,
    add_data_arguments,
    add_rows_options,
    work_rows,
)

COLUMNS = (
    "index", "row", "input", "wanted", "slope_lower", "slope_upper", "verdict", "wrong_by",
    "confirmed", "seconds", "error",
)  # fmt: skip
EXAMPLE = """
example:
  lipyomo monotone net.onnx rows.csv --radius 0.1 --increasing 0,3 --decreasing 1 --out rows.jsonl
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo monotone",
        "Whether an output grows, or falls, with some inputs everywhere in boxes around the rows "
        "of a data set: proofs, or pairs of points that show the contrary.",
        EXIT_CODES + EXAMPLE,
    )
    add_data_arguments(parser)
    parser.add_argument(
        "--radius",
        required=True,
        metavar="R",
        help="half width of the boxes: a number, or a .npy file",
    )
    parser.add_argument("--increasing", default="", metavar="I,...", help="inputs, from 0 on")
    parser.add_argument("--decreasing", default="", metavar="I,...", help="inputs, from 0 on")
    parser.add_argument("--functional", metavar="C", help="of the outputs: numbers or a .npy file")
    parser.add_argument("--method", default="bnb", metavar="NAME", help="see 'lipyomo methods'")
    parser.add_argument(
        "--time-limit", type=float, default=10.0, metavar="S", help="seconds a row and input (10)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="T",
        help=f"slopes above minus this share of the largest one are not negative ({TOLERANCE:g})",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ranges of the slopes")
    add_rows_options(parser)
    return parser


def _inputs(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not numbers of inputs such as 0,3") from None


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo monotone`` with the words after it; returns the exit code."""
    arguments = _parser().parse_args(words)
    if arguments.plot is not None:
        check_picture(arguments.plot)
    job = RowsJob.read(arguments)
    functional = arguments.functional
    task = monotone_task(
        job.network,
        read_side(arguments.radius, "--radius"),
        _inputs(arguments.increasing, "--increasing"),
        _inputs(arguments.decreasing, "--decreasing"),
        None if functional is None else read_functional(functional),
        job.clip,
        arguments.method,
        arguments.time_limit,
        arguments.tolerance,
        job.onnx,
    )
    given = ("radius", "increasing", "decreasing", "functional", "method", "tolerance")
    head = {**job.head, **{name: getattr(arguments, name) for name in given}}
    points = job.data.inputs

    def start(done: Collection[int]) -> Iterator[dict[str, Any]]:
        for row in task.run(points, done, arguments.workers, None, arguments.dask):
            yield row.to_dict()

    total = len(points) * len(task.settings.signs)
    rows, stopped = work_rows(arguments, COLUMNS, head, total, start, _line)
    report = MonotoneReport(tuple(map(MonotoneRow.from_dict, rows)))
    if arguments.json:
        print(json.dumps(report.to_dict(), allow_nan=False))
    else:
        _show(report)
    if arguments.plot is not None:
        from lipyomo.certification.plot import plot_slopes

        plot_slopes(report, arguments.plot)
    return OPEN if stopped or report.count(Trend.OPEN) else DONE


def _line(row: dict[str, Any]) -> str:
    place = f"{row['row']:6d}  input {row['input']}"
    if row["error"] is not None:
        return f"{place}  {row['error']}"
    ends = ["-" if row[name] is None else f"{row[name]:.4g}" for name in COLUMNS[4:6]]
    return f"{place}  {row['verdict']:<12}  least slope {' .. '.join(ends)}  {row['seconds']:.2f} s"


def _show(report: MonotoneReport) -> None:
    found = report.summary()
    for name in ("rows", "unusable", *Trend):
        print(f"{name:<20}{found[name]}")
    for name, counts in found["inputs"].items():
        said = ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
        print(f"{'input ' + name:<20}{said}")
