"""``lipyomo jacobian``: the least and the largest value of each derivative over a domain."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lipyomo.analyses.questions.derivatives import JacobianRanges, ranges_along
from lipyomo.base.decimals import interval, seconds
from lipyomo.base.pictures import entitle, new_figure, plain, save_figure
from lipyomo.base.system.outputs import DERIVATIVES, written
from lipyomo.cli.codes import Exit
from lipyomo.cli.entries import add_entries, read_case, read_rows, search_settings
from lipyomo.cli.interrupt import Interruption
from lipyomo.cli.live import live_line
from lipyomo.cli.options import add, value
from lipyomo.cli.parser import Parser
from lipyomo.cli.streams import answer_only, wrote
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import new_file
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status

EPILOG = """\
exit codes:
  0  both ends of every entry are known to 1e-6
  2  some are intervals: time limit, or Ctrl-C
  1  the input was wrong, or a file could not be written

examples:
  lipyomo jacobian net.onnx --box 0,1
  lipyomo jacobian net.onnx --box -1,1 --wrt 0,3 --entries 2 --plot slopes.png
"""

COLUMNS = ("row", "input", "low_proved", "low", "high", "high_proved", "status")
Line = tuple[str, str, float, float, float, float, str]


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo jacobian`` with the words after it; returns the exit code."""
    began = time.monotonic()
    arguments = _parser().parse_args(words)
    network, domain = read_case(arguments, began)
    problem = LipschitzProblem(network, domain, "l1", "linf", wrt=arguments.wrt)
    names, functionals = read_rows(arguments, network.output_dim)
    with answer_only(), Interruption() as interruption, live_line(arguments.quiet) as tracker:
        heard = interruption.requested, tracker.update
        settings = search_settings(arguments, *heard, arguments.time_limit, began)
        found = ranges_along(problem, functionals, settings)
    if arguments.json:
        head = {"network": str(arguments.network), "rows": names}
        print(json.dumps({**head, **found.to_dict()}, allow_nan=False))
    else:
        _show(found, names)
    table, picture = arguments.csv, arguments.plot
    good = table is None or wrote(lambda: _write(found, names, table))
    if not ((picture is None or wrote(lambda: plot_jacobian(found, names, picture))) and good):
        return Exit.FAILED
    return Exit.DONE if found.status is Status.EXACT else Exit.OPEN


def _parser() -> Parser:
    about = "The least and the largest value of each partial derivative over a domain."
    parser = Parser("lipyomo jacobian", about, EPILOG)
    add_entries(parser, everywhere=True)
    add(parser, "--wrt", help="inputs, such as 0,3 or 5:9, or names (all that can move)")
    add(
        parser,
        "--csv",
        **value("FILE", "write the table", new_file("--csv", "DERIVATIVES", ".csv")),
    )
    add(parser, "--plot", help="draw a heat map of the largest sizes, with all ranges")
    add(parser, "--json", "--quiet", "--debug")
    return parser


def _lines(found: JacobianRanges, names: Sequence[str]) -> list[Line]:
    """The table's rows, in the order of `COLUMNS`."""
    return [
        (name, column, *entry.low, *entry.high, str(entry.status))
        for name, row in zip(names, found.entries, strict=True)
        for column, entry in zip(_inputs(found), row, strict=True)
    ]


def _inputs(found: JacobianRanges) -> list[str]:
    """The columns by the names of their inputs, or by their numbers."""
    return list(map(str, found.columns if found.names is None else found.names))


def _show(found: JacobianRanges, names: Sequence[str]) -> None:
    """Print a table, and how it was reached."""
    head = ("", "input", "least derivative", "largest derivative", "status")
    rows = [
        (name, column, interval(low, least), interval(most, high), status)
        for name, column, low, least, most, high, status in _lines(found, names)
    ]
    print_table(head, rows)
    print(f"{found.status}, {found.nodes} nodes, {seconds(found.seconds)}")


def _write(found: JacobianRanges, names: Sequence[str], path: Path) -> None:
    """Write the table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_lines(found, names))
    with written(path, DERIVATIVES) as stream:
        stream.write(text.getvalue().encode())


def plot_jacobian(found: JacobianRanges, names: Sequence[str], path: Path) -> None:
    """Draw a heat map: colours are the largest sizes, what is written are the ranges.

    Red entries are never negative, blue ones never positive, grey ones have both signs.
    """
    ends = np.array([[(e.low[0], e.high[1]) for e in row] for row in found.entries])
    size = np.abs(ends).max(axis=2)
    sign = (ends[..., 0] >= 0).astype(float) - (ends[..., 1] <= 0)
    top = max(float(size[np.isfinite(size)].max(initial=0.0)), 1e-300)
    p, k = size.shape
    figure = new_figure(min(3.2 + 1.1 * k, 15.0), min(1.2 + 0.6 * p, 14.0))
    axes = figure.add_subplot()
    shade = np.clip(np.nan_to_num(size, posinf=top) / top, 0.0, 1.0)
    red, blue = np.array([0.75, 0.22, 0.17]), np.array([0.12, 0.44, 0.70])
    grey = np.array([0.5, 0.55, 0.55])
    colour = np.where(sign[..., None] > 0, red, np.where(sign[..., None] < 0, blue, grey))
    axes.imshow(1.0 - shade[..., None] * 0.7 * (1.0 - colour), aspect="auto")
    if p * k <= 200:
        for i, j in np.ndindex(p, k):
            text = f"{ends[i, j, 0]:.3g}\n{ends[i, j, 1]:.3g}"
            axes.text(j, i, text, ha="center", va="center", fontsize=8)
    axes.set_xticks(range(k), [plain(name) for name in _inputs(found)])
    axes.set_yticks(range(p), names)
    axes.set_xlabel("input")
    meaning = {"never negative": red, "never positive": blue, "both signs": grey}
    squares = [
        axes.scatter([], [], marker="s", color=1.0 - 0.7 * (1.0 - tone), label=name)
        for name, tone in meaning.items()
    ]
    axes.legend(
        handles=squares, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9
    )
    entitle(axes, "least and largest derivative")
    save_figure(figure, path)
