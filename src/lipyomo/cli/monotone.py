"""``lipyomo monotone``: whether an output is monotone in inputs, on boxes around rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lipyomo.analyses.certification.monotone import (
    SLOPE,
    MonotoneKeywords,
    MonotoneReport,
    MonotoneRow,
    MonotoneSettings,
    MonotoneTask,
    Trend,
)
from lipyomo.analyses.certification.plot import plot_slopes
from lipyomo.cli.options import add_options
from lipyomo.cli.rows import EXIT_CODES, RowsJob, rows_parser, show_facts, show_unusable
from lipyomo.cli.settings import given

COLUMNS = (
    "index", "row", "input", "name", "wanted", "slope_lower", "slope_upper", "verdict", "wrong_by",
    "confirmed", "seconds", "error",
)  # fmt: skip
HEAD = ("radius", "increasing", "decreasing", "functional", "method", "tolerance")
"""Options on which the rows depend."""

EXAMPLE = """
example:
  lipyomo monotone net.onnx rows.csv --radius 0.1 --increasing 0,3 --decreasing 1
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo monotone`` with these arguments; return the exit code."""
    parser = rows_parser(
        "monotone",
        "Whether an output grows, or falls, with some inputs everywhere in boxes around\n"
        "the rows of a data set: proofs, or pairs of points that show the contrary.",
        EXIT_CODES + EXAMPLE,
        (10.0, "a row and input"),
    )
    half = "half width of the boxes: a number, or a .npy file"
    add_options(parser, "--radius", type="side", required=True, help=half)
    add_options(parser, "--increasing", "--decreasing")
    add_options(parser, "--functional", help="of the outputs: numbers or a .npy file")
    add_options(parser, "--method", default="bnb")
    text = "slopes above minus this share of the largest one are not negative"
    shown = f"{text} ({SLOPE:g})"
    add_options(parser, "--tolerance", help=shown, default=SLOPE)
    add_options(parser, "--plot", help="draw the ranges of the slopes")
    arguments = parser.parse_args(words)
    job = RowsJob(arguments)
    asked = {name: getattr(arguments, name) for name in ("clip", *HEAD[:4])}
    settings = MonotoneSettings(**given(arguments, MonotoneKeywords))
    task = MonotoneTask(job.network, **asked, settings=settings, onnx=job.onnx)
    job.announce()
    worked = job.decide(task, task.jobs(job.data.inputs), COLUMNS, job.head(*HEAD), _line)
    rows = tuple(map(MonotoneRow.from_dict, worked.rows))
    report = MonotoneReport(rows, job.data.columns)
    show, plot = partial(_show, report), partial(plot_slopes, report, arguments.plot)
    return worked.finish(arguments, report.to_dict(), show, plot)


def _line(row: dict[str, Any]) -> str:
    place = f"{row['row']:6d}  {_input(row['name'], row['input'])}"
    if row["error"] is not None:
        return f"{place}  {row['error']}"
    ends = [
        "-" if row[name] is None else f"{row[name]:.4g}" for name in ("slope_lower", "slope_upper")
    ]
    return f"{place}  {row['verdict']:<12}  least slope {' .. '.join(ends)}  {row['seconds']:.2f} s"


def _input(name: str | None, number: int) -> str:
    return f"input {number}" if name is None else name


def _show(report: MonotoneReport) -> None:
    found = report.summary()
    show_facts((name, found[name]) for name in ("rows", "unusable"))
    show_unusable(found["why unusable"])
    show_facts((name, found[name]) for name in Trend)
    named = any(row.name is not None for row in report.rows)
    for name, counts in found["inputs"].items():
        said = ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
        show_facts([(name if named else f"input {name}", said)])
