"""``lipyomo sweep``: Lipschitz constants of balls around every row of a data set."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lipyomo.certification.data import class_of, clip_box, data_point
from lipyomo.certification.metric import metric_of
from lipyomo.cli.inputs import read_options, read_settings
from lipyomo.cli.options import add, flag, value
from lipyomo.cli.rows import RowsJob, rows_parser, show_facts
from lipyomo.cli.words import UsageError, numbers, reader
from lipyomo.decimals import down, up
from lipyomo.domains import AllSpace, Box
from lipyomo.errors import LipyomoError
from lipyomo.methods.registry import get_method
from lipyomo.norms import CrossOutput
from lipyomo.problem import LipschitzProblem
from lipyomo.sweeps import SweepRow, sweep

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
    """Run ``lipyomo sweep`` with the words after it; returns the exit code."""
    parser = rows_parser(
        "sweep",
        "Lipschitz constants of balls around every row of a data set.",
        EPILOG,
        (60.0, "a ball"),
    )
    add(
        parser,
        "--radius",
        type=numbers(float),
        required=True,
        metavar="R,...",
        help="radii of the balls",
    )
    inputs = parser.add_mutually_exclusive_group()
    add(inputs, "--norm", help="of balls and inputs (linf)")
    text = "a (fair) metric of the inputs instead, by its dual ball"
    metric = value("FILE", text, reader("inputs.read_dual_ball", "--metric"), dest="norm")
    add(inputs, "--metric", **metric)
    add(parser, "--weights", help="balls and directions s are measured by |s / W| in the norm")
    add(parser, "--wrt", "--directions")
    outputs = parser.add_mutually_exclusive_group()
    add(outputs, "--output-norm", help="as of the main job")
    add(outputs, "--functional", "--dual-ball")
    add(outputs, "--margin-of-label", **flag("cross(i), i the row's (or predicted) class"))
    add(parser, "--method", "--option", "--gap", "--solver", "--seed")
    arguments = parser.parse_args(words)
    radii = arguments.radius
    if not radii or not all(math.isfinite(radius) and radius > 0 for radius in radii):
        raise UsageError("--radius: positive numbers are needed, such as 0.1,0.2")
    if not isinstance(arguments.norm, str) and arguments.clip is not None:
        raise UsageError("--clip does not go with --metric: constants are over whole balls")
    defaults = {} if arguments.method == "auto" else get_method(arguments.method).options
    settings = replace(
        read_settings(arguments), dask=None, options=read_options(arguments.option, defaults)
    )
    job = RowsJob(arguments)
    network, labels = job.network, job.data.labels
    measured = metric_of(arguments.norm, network.input_dim, arguments.weights)
    along = {"wrt": arguments.wrt, "directions": arguments.directions}
    directed = any(asked is not None for asked in along.values())
    if directed and (arguments.weights is not None or not isinstance(arguments.norm, str)):
        raise UsageError(
            "--wrt and --directions go with --norm alone, not with --weights, --metric"
        )
    clip, everywhere = clip_box(arguments.clip, network.input_dim), AllSpace(network.input_dim)
    # A wrong norm or functional is told now, not with every row.
    unit = Box(0.0, 1.0, network.input_dim)
    output_norm = LipschitzProblem(
        network, unit, "linf", arguments.output_norm, arguments.functional, **along
    ).output_norm
    pairs = [(row, radius) for row in range(len(job.data.inputs)) for radius in radii]

    def label(row: int) -> float | None:
        if labels is None or math.isnan(labels[row]):
            return None
        whole = float(labels[row]).is_integer()  # as --margin takes it
        return int(labels[row]) if whole else float(labels[row])

    def problem(row: int, radius: float) -> LipschitzProblem:
        x = data_point(job.data.inputs[row], everywhere)
        norm = output_norm
        if arguments.margin_of_label:
            known = label(row)
            predicted = int(network.forward(x).argmax())
            norm = CrossOutput(predicted if known is None else class_of(known))
        found = measured.problem(network, x, radius, clip, norm)
        if directed:
            found = LipschitzProblem(network, found.domain, found.input_norm, norm, **along)
        return found

    def row_of(index: int, found: SweepRow) -> dict[str, Any]:
        row, radius = pairs[index]
        place = {"index": index, "row": row, "radius": radius, "label": label(row)}
        return {**found.to_dict(), **place}

    def start(done: Collection[int]) -> Iterator[dict[str, Any]]:
        problems: dict[int, LipschitzProblem] = {}
        for index, pair in enumerate(pairs):
            if index not in done:
                try:
                    problems[index] = problem(*pair)
                except LipyomoError as error:
                    yield row_of(index, SweepRow(index, None, str(error)))
        numbers = list(problems)
        many = list(problems.values())
        if many and arguments.method != "auto":
            reason = get_method(arguments.method).refusal(many[0])
            if reason is not None:  # so it does the others, which have the same norms
                raise UsageError(f"method {arguments.method} cannot treat these problems: {reason}")
        workers, dask = arguments.workers, arguments.dask
        for found in sweep(many, arguments.method, settings, workers=workers, dask=dask):
            index = numbers[found.index]
            if found.result is not None:
                own = measured.attained(found.result, pairs[index][1])
                found = replace(found, result=own)
            yield row_of(index, found)

    def settled(row: dict[str, Any]) -> bool:
        reached = row["status"] == "gap" and row["gap"] <= arguments.gap * (1 + 1e-9)
        return reached or row["status"] in ("exact", "bounds")

    head = job.head(
        "radius", "method", "solver", "norm", "output_norm", "functional", "margin_of_label", "gap",
        "seed", "option",
    )  # fmt: skip
    worked = job.work(
        COLUMNS, head, len(pairs), start, lambda row: _line(row, len(radii) > 1), settled
    )
    if arguments.json:
        print(json.dumps(worked.rows, allow_nan=False))
    else:
        _show(worked.rows)
    worked.tell(arguments)
    return worked.code


def _line(row: dict[str, Any], several: bool) -> str:
    place = f"{row['row']:6d}" + (f"  radius {row['radius']:g}" if several else "")
    if row["error"]:
        return f"{place}  {row['error']}"
    upper = math.inf if row["upper"] is None else row["upper"]
    return f"{place}  [{down(row['lower'])}, {up(upper)}]  {row['status']}  {row['seconds']:.2f} s"


def _show(rows: Sequence[dict[str, Any]]) -> None:
    good = [row for row in rows if not row["error"]]
    exact = sum(row["status"] == "exact" for row in good)
    show_facts([("rows", len(rows)), ("unusable", len(rows) - len(good)), ("exact", exact)])
    uppers = sorted(float(row["upper"]) for row in good if row["upper"] not in (None, ""))
    if uppers:
        middle = uppers[len(uppers) // 2]
        show_facts([("largest upper end", up(uppers[-1])), ("median upper end", up(middle))])
