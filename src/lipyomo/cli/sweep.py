"""``lipyomo sweep``: Lipschitz constants of balls around every row of a data set."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from lipyomo.certification.metric import Metric, metric_of
from lipyomo.cli.inputs import read_dual_ball, read_functional, read_options
from lipyomo.cli.parser import Parser, UsageError, ratio
from lipyomo.cli.rows import (
    RowsJob,
    add_data_arguments,
    add_rows_options,
    file_digest,
    work_rows,
)
from lipyomo.decimals import down, up
from lipyomo.domains import Box, ball
from lipyomo.errors import LipyomoError
from lipyomo.methods.registry import get_method
from lipyomo.network import FloatArray
from lipyomo.norms import OutputNorm
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings
from lipyomo.sweeps import SweepRow, sweep

DONE, BOUNDS_ONLY = 0, 2
COLUMNS = (
    "index", "row", "radius", "label", "lower", "upper", "status", "method", "gap", "nodes",
    "seconds", "error",
)  # fmt: skip
EPILOG = """\
exit codes:
  0  every usable row has its constant, or what its method promises
  2  some intervals are open, or Ctrl-C ended the run (rows that were finished are kept)
  1  the input was wrong, or no row could be used

example:
  lipyomo sweep net.onnx test.npz --radius 0.01,0.02 --clip 0,1 --margin-of-label --out rows.csv
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo sweep", "Lipschitz constants of balls around every row of a data set.", EPILOG
    )
    add_data_arguments(parser)
    parser.add_argument("--radius", required=True, metavar="R,...", help="radii of the balls")
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--norm", choices=("linf", "l2", "l1"), default="linf", help="of balls and inputs (linf)"
    )
    inputs.add_argument(
        "--metric",
        metavar="FILE",
        type=Path,
        help="a (fair) metric of the inputs instead, by its dual ball",
    )
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--output-norm", metavar="NORM", help="as of the main job")
    outputs.add_argument(
        "--functional", metavar="C", help="|c.f| for numbers such as 1,-1 or a .npy file"
    )
    outputs.add_argument(
        "--dual-ball", metavar="FILE", type=Path, help="a linear norm by its dual ball"
    )
    outputs.add_argument(
        "--margin-of-label", action="store_true", help="cross(i), i the row's (or predicted) class"
    )
    parser.add_argument("--method", default="auto", metavar="NAME", help="see 'lipyomo methods'")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the method"
    )
    parser.add_argument(
        "--gap", type=ratio, default=0.0, metavar="G", help="stop at this relative gap: 0.05 or 5%%"
    )
    parser.add_argument("--solver", default="auto", metavar="NAME", help="see 'lipyomo solvers'")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all sampling (0)")
    parser.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="seconds a ball (60)"
    )
    add_rows_options(parser)
    return parser


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo sweep`` with the words after it; returns the exit code."""
    arguments = _parser().parse_args(words)
    try:
        radii = [float(part) for part in arguments.radius.split(",")]
    except ValueError:
        raise UsageError(f"--radius: '{arguments.radius}' is not numbers such as 0.1,0.2") from None
    if not all(math.isfinite(radius) and radius > 0 for radius in radii):
        raise UsageError(f"--radius: '{arguments.radius}' must be positive")
    defaults = {} if arguments.method == "auto" else get_method(arguments.method).options
    settings = Settings(
        time_limit=arguments.time_limit,
        gap=arguments.gap,
        solver=arguments.solver,
        seed=arguments.seed,
        options=read_options(arguments.option, defaults),
    )
    if arguments.metric is not None and arguments.clip is not None:
        raise UsageError("--clip does not go with --metric: constants are over whole balls")
    job = RowsJob.read(arguments)
    if arguments.metric is None:
        metric = metric_of(arguments.norm, job.network.input_dim)
    else:
        metric = metric_of(read_dual_ball(arguments.metric), job.network.input_dim)
    dual, functional = arguments.dual_ball, arguments.functional
    output_norm = arguments.output_norm if dual is None else read_dual_ball(dual)
    c = None if functional is None else read_functional(functional)
    # A wrong norm or functional is told now, not with every row.
    LipschitzProblem(job.network, Box(0.0, 1.0, job.network.input_dim), "linf", output_norm, c)
    labels = job.data.labels
    pairs = [(row, radius) for row in range(len(job.data.inputs)) for radius in radii]
    given = ("method", "norm", "output_norm", "functional", "margin_of_label", "gap", "seed")
    head = {
        **job.head,
        "radius": radii,
        **{name: getattr(arguments, name) for name in given},
        "option": arguments.option,
        "dual_ball": file_digest(arguments.dual_ball),
        "metric": file_digest(arguments.metric),
    }

    def row_of(index: int, found: SweepRow) -> dict[str, Any]:
        row, radius = pairs[index]
        label = None if labels is None or math.isnan(labels[row]) else float(labels[row])
        return {**found.to_dict(), "index": index, "row": row, "radius": radius, "label": label}

    def start(done: Collection[int]) -> Iterator[dict[str, Any]]:
        numbers: list[int] = []
        problems = []
        for index, (row, radius) in enumerate(pairs):
            if index in done:
                continue
            label = None if labels is None else labels[row]
            try:
                x = job.data.inputs[row]
                problem = _problem(job, metric, output_norm, c, x, radius, label, arguments)
            except LipyomoError as error:
                yield row_of(index, SweepRow(index, None, str(error)))
                continue
            numbers.append(index)
            problems.append(problem)
        workers, dask = arguments.workers, arguments.dask
        for found in sweep(problems, arguments.method, settings, workers=workers, dask=dask):
            yield row_of(numbers[found.index], found)

    ordered, stopped = work_rows(
        arguments, COLUMNS, head, len(pairs), start, lambda row: _line(row, len(radii) > 1)
    )
    if arguments.json:
        print(json.dumps(ordered, allow_nan=False))
    else:
        _show(ordered)
    settled = ("exact", "bounds")
    left = any(not row["error"] and row["status"] not in settled for row in ordered)
    return BOUNDS_ONLY if stopped or left else DONE


def _problem(
    job: RowsJob,
    metric: Metric,
    output_norm: str | OutputNorm | None,
    functional: FloatArray | None,
    x: FloatArray,
    radius: float,
    label: Any,
    arguments: Any,
) -> LipschitzProblem:
    """The problem of one ball."""
    network = job.network
    if x.size != network.input_dim:
        raise UsageError(f"the row has {x.size} entries, the network takes {network.input_dim}")
    margin = None
    if arguments.margin_of_label:
        known = label is not None and math.isfinite(label)
        margin = int(label) if known else int(network.forward(x).argmax())
    domain = ball(x, radius, arguments.norm, job.clip)
    problem = LipschitzProblem(network, domain, arguments.norm, output_norm, functional, margin)
    if arguments.metric is None:
        return problem
    outer = Box(-math.inf, math.inf, x.size)
    return metric.problem(network, x, radius, outer, problem.output_norm)


def _line(row: dict[str, Any], several: bool) -> str:
    place = f"{row['row']:6d}" + (f"  radius {row['radius']:g}" if several else "")
    if row["error"]:
        return f"{place}  {row['error']}"
    upper = math.inf if row["upper"] is None else row["upper"]
    return f"{place}  [{down(row['lower'])}, {up(upper)}]  {row['status']}  {row['seconds']:.2f} s"


def _show(rows: Sequence[dict[str, Any]]) -> None:
    good = [row for row in rows if not row["error"]]
    exact = sum(row["status"] == "exact" for row in good)
    print(f"{'rows':<20}{len(rows)}")
    print(f"{'unusable':<20}{len(rows) - len(good)}")
    print(f"{'exact':<20}{exact}")
    uppers = [float(row["upper"]) for row in good if row["upper"] not in (None, "")]
    if uppers:
        print(f"{'largest upper end':<20}{up(max(uppers))}")
        print(f"{'median upper end':<20}{up(sorted(uppers)[len(uppers) // 2])}")
