"""``python -m experiments table1 ...``: tables and figures of the LipMIP paper, made again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.papers import NAMES, reproduce
from lipyomo.cli.interrupt import Interruption
from lipyomo.cli.parser import Parser
from lipyomo.cli.tables import print_table

DONE, BOUNDS_ONLY = 0, 2
STOPPING = b"lipyomo: stopping; Ctrl-C again leaves at once\n"


def run(words: Sequence[str]) -> int:
    """Make what the words name; returns the exit code."""
    parser = Parser(
        "python -m experiments",
        "Make tables and figures of the LipMIP paper (Jordan and Dimakis, NeurIPS 2020) again.",
        "Runs are kept in DIR at once; the same command goes on where it was stopped.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="few and small problems, for minutes")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("reproduced"), help="where files go"
    )
    parser.add_argument("--trials", metavar="N", type=int, help="networks, balls or points (3)")
    parser.add_argument(
        "--mnist", metavar="DIR", type=Path, help="train MNIST networks from the idx files there"
    )
    parser.add_argument(
        "--time-limit", metavar="S", type=float, help="wall-clock seconds of each run"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    arguments = parser.parse_args(words)
    told = None if arguments.quiet else _tell
    found = {}
    try:
        with Interruption(STOPPING) as interruption:
            for name in dict.fromkeys(arguments.names):
                found[name] = reproduce(
                    name,
                    arguments.quick,
                    arguments.out,
                    told,
                    trials=arguments.trials,
                    mnist=arguments.mnist,
                    time_limit=arguments.time_limit,
                    should_stop=interruption.requested,
                )
    except KeyboardInterrupt:
        print("lipyomo: stopped; the same command goes on from here", file=sys.stderr)
        return BOUNDS_ONLY
    if arguments.json:
        print(
            json.dumps({name: report.to_dict() for name, report in found.items()}, allow_nan=False)
        )
        return DONE
    for name, report in found.items():
        print(f"{name}: {report.title}")
        print_table(report.header, report.rows)
        if any("*" in cell for row in report.rows for cell in row):
            print("* at least: the distance to the nearer end of an interval that is still open")
        print("written: " + ", ".join(str(path) for path in report.files) + "\n")
    return DONE


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
