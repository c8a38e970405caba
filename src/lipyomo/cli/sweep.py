"""``lipyomo sweep``: Lipschitz constants of balls around every row of a data set."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lipyomo.cli.data import read_data
from lipyomo.cli.inputs import read_dual_ball, read_functional, read_options, read_pair
from lipyomo.cli.parser import Parser, UsageError, ratio
from lipyomo.cli.rows import add_rows_options, open_rows, row_progress
from lipyomo.decimals import down, up
from lipyomo.domains import ball
from lipyomo.errors import LipyomoError
from lipyomo.methods.registry import get_method
from lipyomo.network import FloatArray, Network
from lipyomo.onnx import load
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.digest import network_digest
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
  1  the input was wrong

example:
  lipyomo sweep net.onnx test.npz --radius 0.01,0.02 --clip 0,1 --margin-of-label --out rows.csv
"""


def _parser() -> Parser:
    parser = Parser(
        "lipyomo sweep", "Lipschitz constants of balls around every row of a data set.", EPILOG
    )
    parser.add_argument("network", metavar="NET", type=Path, help="an ONNX file")
    parser.add_argument("data", metavar="DATA", type=Path, help=".npz, .npy or .csv")
    parser.add_argument("--output", metavar="NODE", help="cut the graph here (the logits)")
    parser.add_argument("--radius", required=True, metavar="R,...", help="of the balls; several do")
    parser.add_argument(
        "--norm", choices=("linf", "l2", "l1"), default="linf", help="of balls and inputs (linf)"
    )
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--output-norm", metavar="NORM", help="as of the main job")
    outputs.add_argument("--functional", metavar="C", help="|c.f|")
    outputs.add_argument("--dual-ball", metavar="FILE", type=Path, help="a linear norm")
    outputs.add_argument(
        "--margin-of-label", action="store_true", help="cross(i), i the row's (or predicted) class"
    )
    parser.add_argument("--clip", metavar="LO,HI", help="box of valid inputs")
    parser.add_argument("--method", default="auto", metavar="NAME", help="see 'lipyomo methods'")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--gap", type=ratio, default=0.0, metavar="G", help="0.05 or 5%%")
    parser.add_argument("--solver", default="auto", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
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
    network = load(arguments.network, output=arguments.output)
    data = read_data(arguments.data, network.input_dim).first(arguments.first)
    pairs = [(row, radius) for row in range(len(data.inputs)) for radius in radii]
    head = {
        "network": network_digest(network),
        "radius": radii,
        "method": arguments.method,
        "norm": arguments.norm,
        "clip": arguments.clip,
    }

    def row_of(index: int, found: dict[str, Any]) -> dict[str, Any]:
        row, radius = pairs[index]
        label = None if data.labels is None else float(data.labels[row])
        label = None if label is None or math.isnan(label) else label
        return {**found, "index": index, "row": row, "radius": radius, "label": label}

    rows: dict[int, dict[str, Any]] = {}
    stopped = False
    with ExitStack() as stack:
        file = open_rows(stack, arguments, COLUMNS, head)
        if file is not None:
            rows = {index: row for index, row in file.rows.items() if index < len(pairs)}
        told = row_progress(stack, arguments, len(pairs), len(rows))

        def keep(index: int, found: SweepRow) -> None:
            rows[index] = row_of(index, found.to_dict())
            if file is not None:
                file.add({name: rows[index][name] for name in COLUMNS})
            told(_line(rows[index], len(radii) > 1))

        try:
            numbers: list[int] = []
            problems = []
            for index, (row, radius) in enumerate(pairs):
                if index in rows:
                    continue
                label = None if data.labels is None else data.labels[row]
                try:
                    problem = _problem(network, data.inputs[row], radius, label, arguments)
                except LipyomoError as error:
                    keep(index, SweepRow(index, None, str(error)))
                    continue
                numbers.append(index)
                problems.append(problem)
            for found in sweep(
                problems,
                arguments.method,
                settings,
                workers=arguments.workers,
                dask=arguments.dask,
            ):
                keep(numbers[found.index], found)
        except KeyboardInterrupt:
            stopped = True
    ordered = [rows[index] for index in sorted(rows)]
    if arguments.json:
        print(json.dumps(ordered, allow_nan=False))
    else:
        _show(ordered)
    settled = ("exact", "bounds")
    left = any(not row["error"] and row["status"] not in settled for row in ordered)
    return BOUNDS_ONLY if stopped or left else DONE


def _problem(
    network: Network, x: FloatArray, radius: float, label: Any, arguments: Any
) -> LipschitzProblem:
    """The problem of one ball."""
    clip = None if arguments.clip is None else read_pair(arguments.clip, "--clip")
    if x.size != network.input_dim:
        raise UsageError(f"the row has {x.size} entries, the network takes {network.input_dim}")
    margin = None
    if arguments.margin_of_label:
        known = label is not None and math.isfinite(label)
        margin = int(label) if known else int(network.forward(x).argmax())
    dual = arguments.dual_ball
    functional = arguments.functional
    return LipschitzProblem(
        network,
        ball(x, radius, arguments.norm, clip),
        arguments.norm,
        arguments.output_norm if dual is None else read_dual_ball(dual),
        None if functional is None else read_functional(functional),
        margin,
    )


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
