"""``lipyomo jacobian``: the range of each partial derivative over a domain."""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lipyomo.analyses.questions.contraction import contraction
from lipyomo.analyses.questions.derivatives import JacobianRanges, ranges_along
from lipyomo.base.decimals import interval, seconds
from lipyomo.base.pictures import entitle, new_figure, plain_name, save_figure
from lipyomo.base.system.outputs import DERIVATIVES, written
from lipyomo.cli.codes import Exit
from lipyomo.cli.entries import (
    add_entries,
    finish,
    range_cells,
    read_question,
    read_rows,
    search_settings,
)
from lipyomo.cli.live import watched
from lipyomo.cli.options import KEPT, SHOWN, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.streams import wrote
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import UsageError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem

EPILOG = """\
exit codes:
  0  both ends of every entry are known to 1e-6
  2  some are intervals: time limit, or Ctrl-C
  1  the input was wrong, or a file could not be written

examples:
  lipyomo jacobian net.onnx --box 0,1
  lipyomo jacobian net.onnx --box -1,1 --wrt 0,3 --entries 2 --plot slopes.png
  lipyomo jacobian field.onnx --box -1,1 --contraction --metric P.npy
"""

COLUMNS = ("row", "input", "low_proved", "low", "high", "high_proved", "status")
Line = tuple[str, str, float, float, float, float, str]


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo jacobian`` with these arguments; return the exit code."""
    about = "The least and the largest value of each partial derivative over a domain."
    parser = Parser("lipyomo jacobian", about, EPILOG)
    add_entries(parser, everywhere=True)
    add_options(parser, *KEPT)
    add_options(parser, "--wrt", help="inputs, such as 0,3 or 5:9, or names (all that can move)")
    add_options(parser, "--csv")
    add_options(parser, "--plot", help="draw a heat map of the largest sizes, with all ranges")
    field = parser.add_argument_group("fields (as many outputs as inputs)")
    add_options(field, "--contraction")
    text = "a .npy file of P, positive definite: in the norm (v . P v)^1/2 (l2)"
    add_options(field, "--metric", type="array", dest="metric", help=text)
    add_options(parser, *SHOWN)
    arguments, began, given, domain = read_question(parser, words)
    network = given.network
    if arguments.contraction:
        return _contraction(arguments, network, domain, began)
    if arguments.metric is not None:
        raise UsageError("--metric needs --contraction")
    problem = LipschitzProblem(network, domain, "l1", "linf", wrt=arguments.wrt)
    names, functionals = read_rows(arguments, network.output_dim)
    chosen = search_settings(arguments, arguments.time_limit, started=began)
    with watched(chosen, arguments.quiet) as settings:
        found = ranges_along(problem, functionals, settings)
    record = {"rows": names, **found.to_dict()}
    code = finish(arguments, record, lambda: _show(found, names), [found], found.unwritten)
    table, picture = arguments.csv, arguments.plot
    good = table is None or wrote(lambda: _write(found, names, table))
    if not ((picture is None or wrote(lambda: plot_jacobian(found, names, picture))) and good):
        return Exit.FAILED
    return code


def _contraction(arguments: Namespace, network: Network, domain: Domain, began: float) -> int:
    """Bound the eigenvalues of the Jacobian's symmetric part."""
    others = ("wrt", "csv", "plot", "functional", "entries")
    if any(getattr(arguments, name, None) is not None for name in others):
        raise UsageError("--contraction is about the whole Jacobian, and has no table or picture")
    chosen = search_settings(arguments, arguments.time_limit, started=began)
    with watched(chosen, arguments.quiet) as settings:
        found = contraction(network, domain, arguments.metric, settings)

    def show() -> None:
        low, high = found.high
        says = "contracts" if high < 0.0 else "expands somewhere" if low > 0.0 else "undecided"
        least, largest, *spent = range_cells(found)
        head = "least eigenvalue", "largest eigenvalue", "", "status", "nodes", "time"
        print_table(head, [(least, largest, says, *spent)])

    return finish(arguments, {"eigenvalues": found.to_dict()}, show, [found], found.unwritten)


def _lines(found: JacobianRanges, names: Sequence[str]) -> list[Line]:
    """Return the table's rows, in the order of `COLUMNS`."""
    return [
        (name, column, *entry.low, *entry.high, str(entry.status))
        for name, row in zip(names, found.entries, strict=True)
        for column, entry in zip(_inputs(found), row, strict=True)
    ]


def _inputs(found: JacobianRanges) -> list[str]:
    """Return the names, or else the numbers, of the columns' inputs."""
    return list(map(str, found.columns if found.names is None else found.names))


def _show(found: JacobianRanges, names: Sequence[str]) -> None:
    """Print the table, and a line with status, nodes and time."""
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
    """Draw a heat map: colours show the largest sizes, texts the ranges.

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
    axes.set_xticks(range(k), [plain_name(name) for name in _inputs(found)])
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
