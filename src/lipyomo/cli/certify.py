"""``lipyomo certify``: which points of a data set keep their class under small perturbations."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
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
from lipyomo.cli.data import read_data
from lipyomo.cli.inputs import read_pair
from lipyomo.cli.parser import Parser, UsageError
from lipyomo.cli.rows import add_rows_options, open_rows, row_progress
from lipyomo.onnx import load
from lipyomo.proofs.digest import network_digest

DONE, OPEN = 0, 2
COLUMNS = (
    "index", "predicted", "label", "margin", "certified_radius", "adversarial_radius",
    "verdict", "method", "seconds", "error",
)  # fmt: skip
EPILOG = """\
exit codes:
  0  every usable row was decided
  2  some rows are open, or Ctrl-C ended the run (rows that were finished are kept)
  1  the input was wrong

example:
  lipyomo certify net.onnx test.npz --radius 0.02 --clip 0,1 --out rows.csv --plot curve.png
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo certify",
        "Robustness of a classifier at the points of a data set: certified radii, adversarial "
        "examples, verdicts.",
        EPILOG,
    )
    parser.add_argument("network", metavar="NET", type=Path, help="an ONNX file")
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        help=".npz, .npy or .csv: inputs, with or without labels (else the predicted classes)",
    )
    parser.add_argument("--output", metavar="NODE", help="cut the graph here (the logits)")
    parser.add_argument("--radius", type=float, required=True, metavar="R", help="of the verdicts")
    parser.add_argument(
        "--norm", choices=("linf", "l2", "l1"), default="linf", help="of perturbations (linf)"
    )
    parser.add_argument("--clip", metavar="LO,HI", help="box of valid inputs")
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
    if arguments.plot is not None and not arguments.plot.absolute().parent.is_dir():
        raise UsageError(f"--plot: there is no folder '{arguments.plot.parent}'")
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
    network = load(arguments.network, output=arguments.output)
    clip = None if arguments.clip is None else read_pair(arguments.clip, "--clip")
    classifier = Classifier(network, arguments.norm, clip)
    data = read_data(arguments.data, network.input_dim).first(arguments.first)
    jobs = data_rows(data.inputs, data.labels)
    head = {
        "network": network_digest(network),
        "radius": settings.radius,
        "norm": arguments.norm,
        "clip": arguments.clip,
        "ladder": list(settings.ladder),
    }
    rows: dict[int, RobustnessRow] = {}
    stopped = False
    with ExitStack() as stack:
        file = open_rows(stack, arguments, COLUMNS, head)
        if file is not None:
            rows = {index: _again(row) for index, row in file.rows.items() if index < len(jobs)}
        told = row_progress(stack, arguments, len(jobs), len(rows))
        onnx = arguments.network if arguments.output is None else None
        try:
            for row in certify_rows(
                classifier,
                [job for job in jobs if job[0] not in rows],
                settings,
                onnx,
                arguments.workers,
                None,
                arguments.dask,
            ):
                rows[row.index] = row
                if file is not None:
                    file.add(row.to_dict())
                told(_line(row))
        except KeyboardInterrupt:
            stopped = True
    report = RobustnessReport(settings.radius, tuple(rows[index] for index in sorted(rows)))
    _show(report, arguments)
    if arguments.plot is not None and report.used:
        from lipyomo.certification.plot import plot_curves

        plot_curves({arguments.network.stem: report}, arguments.plot)
    return OPEN if stopped or report.count(Verdict.OPEN) else DONE


def _again(row: dict[str, Any]) -> RobustnessRow:
    """A row of a file of an earlier run."""

    def number(name: str, none: float | None) -> float | None:
        return none if row.get(name) in (None, "") else float(row[name])

    def whole(name: str) -> int | None:
        return None if row.get(name) in (None, "") else int(row[name])

    return RobustnessRow(
        int(row["index"]),
        whole("predicted"),
        whole("label"),
        number("margin", None),
        number("certified_radius", 0.0) or 0.0,
        number("adversarial_radius", math.inf) or 0.0,
        row.get("example"),
        Verdict(row["verdict"]) if row.get("verdict") else None,
        row.get("method") or "",
        number("seconds", 0.0) or 0.0,
        row.get("error") or None,
    )


def _line(row: RobustnessRow) -> str:
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
