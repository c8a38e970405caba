"""``lipyomo certify``: which points of a data set keep their class under small perturbations."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from lipyomo.certification import (
    Classifier,
    PointSettings,
    RobustnessReport,
    RobustnessRow,
    Verdict,
)
from lipyomo.certification.point import LADDER
from lipyomo.certification.report import certify_rows, data_rows
from lipyomo.cli.inputs import read_dual_ball
from lipyomo.cli.parser import Parser, UsageError
from lipyomo.cli.plot import check_picture
from lipyomo.cli.rows import (
    DONE,
    EXIT_CODES,
    OPEN,
    RowsJob,
    add_data_arguments,
    add_rows_options,
    file_digest,
    work_rows,
)

COLUMNS = (
    "index", "predicted", "label", "margin", "certified_radius", "adversarial_radius",
    "verdict", "method", "seconds", "error",
)  # fmt: skip
EXAMPLE = """
example:
  lipyomo certify net.onnx test.npz --radius 0.02 --clip 0,1 --out rows.csv --plot curve.png
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo certify",
        "Robustness of a classifier at the points of a data set: certified radii, adversarial "
        "examples, verdicts.",
        EXIT_CODES + EXAMPLE,
    )
    add_data_arguments(parser)
    parser.add_argument("--radius", type=float, required=True, metavar="R", help="of the verdicts")
    metric = parser.add_mutually_exclusive_group()
    metric.add_argument(
        "--norm", choices=("linf", "l2", "l1"), default="linf", help="of perturbations (linf)"
    )
    metric.add_argument(
        "--dual-ball",
        metavar="FILE",
        type=Path,
        help="a (fair) metric of the inputs instead, by its dual ball: vertices, or A and b",
    )
    parser.add_argument(
        "--time-limit", type=float, default=10.0, metavar="S", help="seconds a point (10)"
    )
    parser.add_argument(
        "--ladder",
        default=",".join(LADDER),
        metavar="A,B,...",
        help="what certifies, cheapest first: global, margins, and methods with an upper end "
        f"({','.join(LADDER)})",
    )
    parser.add_argument(
        "--exact", action="store_true", help="decide what is left by a MIP over the network"
    )
    parser.add_argument("--solver", default="auto", metavar="NAME", help="of --exact")
    parser.add_argument(
        "--no-radii", action="store_true", help="only the verdict at R, no bisection"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the attack (0)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw certified accuracy")
    add_rows_options(parser)
    return parser


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo certify`` with the words after it; returns the exit code."""
    arguments = _parser().parse_args(words)
    if arguments.plot is not None:
        check_picture(arguments.plot)
    if arguments.seed < 0:
        raise UsageError(f"--seed: {arguments.seed} is negative.  Remedy: 0 or more")
    ladder = tuple(name.strip() for name in arguments.ladder.split(",") if name.strip())
    settings = PointSettings(
        arguments.radius,
        arguments.time_limit,
        (*ladder, "exact") if arguments.exact else ladder,
        not arguments.no_radii,
        arguments.seed,
        arguments.solver,
    )
    job = RowsJob.read(arguments)
    dual = arguments.dual_ball
    norm = arguments.norm if dual is None else read_dual_ball(dual)
    classifier = Classifier(job.network, norm, job.clip)
    jobs = data_rows(job.data.inputs, job.data.labels)
    head = {
        **job.head,
        "radius": settings.radius,
        "norm": arguments.norm,
        "dual ball": file_digest(dual),
        "ladder": list(settings.ladder),
        "radii": settings.radii,
        "seed": settings.seed,
    }

    def start(done: Collection[int]) -> Iterator[dict[str, Any]]:
        left = [entry for entry in jobs if entry[0] not in done]
        workers, dask = arguments.workers, arguments.dask
        for row in certify_rows(classifier, left, settings, job.onnx, workers, None, dask):
            yield row.to_dict()

    rows, stopped = work_rows(arguments, COLUMNS, head, len(jobs), start, _line)
    report = RobustnessReport(settings.radius, tuple(map(RobustnessRow.from_dict, rows)))
    _show(report, arguments)
    if arguments.plot is not None and report.used:
        from lipyomo.certification.plot import plot_curves

        plot_curves({arguments.network.stem: report}, arguments.plot)
    return OPEN if stopped or report.count(Verdict.OPEN) else DONE


def _line(found: dict[str, Any]) -> str:
    row = RobustnessRow.from_dict(found)
    if row.error is not None:
        return f"{row.index:6d}  {row.error}"
    outer = "" if math.isinf(row.adversarial_radius) else f" < {row.adversarial_radius:.4g}"
    return (
        f"{row.index:6d}  {row.verdict!s:<14} class {row.predicted}  "
        f"radius {row.certified_radius:.4g}{outer}  {row.method}  {row.seconds:.2f} s"
    )


def _show(report: RobustnessReport, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(report.to_dict(), allow_nan=False))
        return
    found = report.summary()
    for name in ("rows", "unusable", "robust", "not robust", "misclassified", "open"):
        print(f"{name:<20}{found[name]}")
    for name in ("clean accuracy", "certified accuracy", "decided"):
        print(f"{name:<20}{100 * found[name]:.1f} %")
    by = ", ".join(f"{name} {count}" for name, count in found["decided by"].items())
    print(f"{'decided by':<20}{by or '-'}")
    if found["median seconds"] is not None:
        print(f"{'median':<20}{found['median seconds']:.2f} s a point")
