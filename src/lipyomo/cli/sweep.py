"""``lipyomo sweep``: Lipschitz constants on balls around every row of a data set."""

from __future__ import annotations

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lipyomo.analyses.certification.data import class_of, clip_box, data_point
from lipyomo.analyses.certification.metric import metric_of
from lipyomo.analyses.certification.tables import class_labels
from lipyomo.analyses.sweeps import SweepRow, sweep
from lipyomo.base.arrays import FloatArray
from lipyomo.base.decimals import interval, up
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.rowfile import Row
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.rows import RowsJob, rows_parser, show_facts, show_unusable
from lipyomo.cli.settings import read_settings
from lipyomo.cli.values import read_options
from lipyomo.cli.words import UsageError, number_list
from lipyomo.methods.registry import get_method
from lipyomo.problems.domains import AllSpace, Box
from lipyomo.problems.norms import CrossOutput
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.settings import Settings

COLUMNS = (
    "index", "row", "radius", "label", "lower", "upper", "status", "method", "gap", "nodes",
    "seconds", "error",
)  # fmt: skip
EPILOG = """\
exit codes:
  0  every usable row has its constant, or what its method guarantees
  2  some intervals are open, or Ctrl-C ended the run (finished rows are kept)
  1  the input was wrong, no row could be used, or a file could not be written

example:
  lipyomo sweep net.onnx test.npz --radius 0.01,0.02 --clip 0,1 --margin-of-label
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo sweep`` with these arguments; return the exit code."""
    arguments = _parser().parse_args(words)
    _check(arguments)
    defaults = {} if arguments.method == "auto" else get_method(arguments.method).options
    settings = replace(
        read_settings(arguments),
        dask=None,
        workers=None,
        options=read_options(arguments.option, defaults),
    )
    job = RowsJob(arguments)
    balls = _Balls(job)

    def start(done: Collection[int]) -> Iterator[Row]:
        return balls.solved(done, settings)

    def is_final(row: Row) -> bool:
        reached = row["status"] == "gap" and row["gap"] <= arguments.gap * (1 + 1e-9)
        return reached or row["status"] in ("exact", "bounds")

    head = job.head(
        "radius", "method", "solver", "norm", "output_norm", "functional", "margin_of_label", "gap",
        "seed", "option",
    )  # fmt: skip
    several = len(arguments.radius) > 1
    job.announce()
    worked = job.work(
        COLUMNS, head, len(balls.places), start, lambda row: _line(row, several), is_final
    )
    columns = job.data.columns
    record = {"data": None if columns is None else columns.to_dict(), "rows": worked.rows}
    return worked.finish(arguments, record, lambda: _show(worked.rows))


def _parser() -> Parser:
    parser = rows_parser(
        "sweep",
        "Lipschitz constants of balls around every row of a data set.",
        EPILOG,
        (60.0, "a ball"),
    )
    radii = {"metavar": "R,...", "help": "radii of the balls", "type": number_list}
    add_options(parser, "--radius", required=True, **radii)
    inputs = parser.add_mutually_exclusive_group()
    add_options(inputs, "--norm", help="of balls and inputs (linf)")
    add_options(inputs, "--metric")
    add_options(
        parser, "--weights", help="balls and directions s are measured by |s / W| in the norm"
    )
    add_options(parser, "--wrt", "--directions")
    outputs = parser.add_mutually_exclusive_group()
    add_options(outputs, "--output-norm", help="as of the main job")
    add_options(outputs, "--functional", "--dual-ball")
    add_options(outputs, "--margin-of-label")
    add_options(parser, "--method", "--option", "--gap", "--solver", "--seed")
    return parser


def _check(arguments: Namespace) -> None:
    """Refuse options that exclude each other."""
    radii = arguments.radius
    if not radii or not all(math.isfinite(radius) and radius > 0 for radius in radii):
        raise UsageError("--radius: positive numbers are needed, such as 0.1,0.2")
    named = isinstance(arguments.norm, str)
    if not named and arguments.clip is not None:
        raise UsageError("--clip does not go with --metric: constants are over whole balls")
    directed = arguments.wrt is not None or arguments.directions is not None
    if directed and (arguments.weights is not None or not named):
        raise UsageError(
            "--wrt and --directions go with --norm alone, not with --weights, --metric"
        )


class _Balls:
    """The balls around the rows of a data set.

    Parameters
    ----------
    job : RowsJob

    Attributes
    ----------
    places : list of (int, float)
        Row and radius of each ball.

    Raises
    ------
    LipyomoError
        If a norm, a functional or directions do not match the network, once for all rows.
    """

    def __init__(self, job: RowsJob) -> None:
        self._arguments = arguments = job.arguments
        self._data, self._network = job.data, job.network
        d = job.network.input_dim
        self._metric = metric_of(arguments.norm, d, arguments.weights)
        self._clip = clip_box(arguments.clip, d)
        along = {"wrt": arguments.wrt, "directions": arguments.directions}
        self._along = {name: asked for name, asked in along.items() if asked is not None}
        of_outputs = arguments.output_norm, arguments.functional
        example = LipschitzProblem(
            job.network, Box(0.0, 1.0, d), "linf", *of_outputs, **self._along
        )
        self._output_norm = example.output_norm
        self._labels = self._read_labels()
        rows = range(len(job.data.inputs))
        self.places = [(row, radius) for row in rows for radius in arguments.radius]

    def solved(self, done: Collection[int], settings: Settings) -> Iterator[Row]:
        """Generate the rows of the balls that are not done, as they finish.

        Raises
        ------
        UsageError
            If the method refuses such problems.
        """
        problems: dict[int, LipschitzProblem] = {}
        for index, (row, radius) in enumerate(self.places):
            if index not in done:
                try:
                    problems[index] = self._problem(row, radius)
                except LipyomoError as error:
                    yield self._row(index, SweepRow(index, None, str(error)))
        indices, many, method = list(problems), list(problems.values()), self._arguments.method
        if many and method != "auto":
            reason = get_method(method).refusal(many[0])
            if reason is not None:  # it refuses the others as well, which have the same norms
                raise UsageError(f"method {method} cannot treat these problems: {reason}")
        workers, dask = self._arguments.workers, self._arguments.dask
        for found in sweep(many, method, settings, workers=workers, dask=dask):
            index = indices[found.index]
            if found.result is not None:
                own = self._metric.attained(found.result, self.places[index][1])
                found = replace(found, result=own)
            yield self._row(index, found)

    def _problem(self, row: int, radius: float) -> LipschitzProblem:
        """Return the problem of one ball."""
        network, norm = self._network, self._output_norm
        x = data_point(self._data.inputs[row], AllSpace(network.input_dim))
        if self._arguments.margin_of_label:
            known = self._label(row)
            predicted = int(network.forward(x).argmax())
            norm = CrossOutput(predicted if known is None else class_of(known))
        found = self._metric.problem(network, x, radius, self._clip, norm)
        if self._along:
            found = LipschitzProblem(network, found.domain, found.norm, norm, **self._along)
        return found

    def _read_labels(self) -> FloatArray | None:
        """Return the labels; as classes if they are one-hot rows, or for margins."""
        labels, outputs = self._data.labels, self._network.output_dim
        if self._arguments.margin_of_label and outputs < 2:
            raise UsageError(
                "--margin-of-label: a network of one output has no margins between outputs.  "
                "Remedy: leave it out, the constant is that of the output"
            )
        if labels is None:
            return None
        if labels.ndim > 1 or self._arguments.margin_of_label:
            return class_labels(labels, len(self._data.inputs), outputs)
        return np.asarray(labels, dtype=np.float64)

    def _label(self, row: int) -> float | None:
        """Return the label of a row, if it has one."""
        labels = self._labels
        if labels is None or math.isnan(labels[row]):
            return None
        whole = float(labels[row]).is_integer()  # as for --margin
        return int(labels[row]) if whole else float(labels[row])

    def _row(self, index: int, found: SweepRow) -> Row:
        row, radius = self.places[index]
        place = {"index": index, "row": row, "radius": radius, "label": self._label(row)}
        return {**found.to_dict(), **place}


def _line(row: Row, several: bool) -> str:
    place = f"{row['row']:6d}" + (f"  radius {row['radius']:g}" if several else "")
    if row["error"]:
        return f"{place}  {row['error']}"
    upper = math.inf if row["upper"] is None else row["upper"]
    return f"{place}  {interval(row['lower'], upper)}  {row['status']}  {row['seconds']:.2f} s"


def _show(rows: Sequence[Row]) -> None:
    good = [row for row in rows if not row["error"]]
    exact = sum(row["status"] == "exact" for row in good)
    show_facts([("rows", len(rows)), ("unusable", len(rows) - len(good))])
    show_unusable(Counter(row["error"] for row in rows if row["error"]))
    show_facts([("exact", exact)])
    uppers = sorted(float(row["upper"]) for row in good if row["upper"] not in (None, ""))
    if uppers:
        middle = uppers[len(uppers) // 2]
        show_facts([("largest upper end", up(uppers[-1])), ("median upper end", up(middle))])
