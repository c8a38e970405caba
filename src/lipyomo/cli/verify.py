"""``lipyomo verify``: check a proof file against a network in exact arithmetic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lipyomo.cli.parser import Parser
from lipyomo.decimals import down, up
from lipyomo.onnx import load
from lipyomo.proofs import read_proof, verify_proof

DONE, FAILED, LOWER_ONLY = 0, 1, 2
EPILOG = """\
exit codes:
  0  both ends of the interval hold
  2  the lower end holds; nothing contradicts the upper end, which rests on the method's word
  1  a check failed, or the input was wrong
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo verify`` with the words after it; returns the exit code."""
    parser = Parser(
        "lipyomo verify",
        "Check a proof that 'lipyomo NET ... --proof FILE' wrote, without solving anything.",
        EPILOG,
    )
    parser.add_argument("proof", metavar="PROOF", type=Path, help="the proof file")
    parser.add_argument("network", metavar="NET", type=Path, help="the ONNX file it is about")
    parser.add_argument("--output", metavar="NODE", help="cut the graph at this node or tensor")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    arguments = parser.parse_args(words)
    proof = read_proof(arguments.proof)
    verdict = verify_proof(proof, load(arguments.network, output=arguments.output))
    if arguments.json:
        record = {
            "lower": verdict.lower,
            "upper": verdict.upper if verdict.upper < float("inf") else None,
            "lower_holds": verdict.lower_holds,
            "upper_holds": verdict.upper_holds,
            "checks": [
                {"statement": check.statement, "holds": check.holds} for check in verdict.checks
            ],
        }
        print(json.dumps(record, allow_nan=False))
    else:
        print(f"interval    [{down(verdict.lower, 17)}, {up(verdict.upper, 17)}]")
        for check in verdict.checks:
            said = {True: "holds", False: "FAILS", None: "undecided"}[check.holds]
            print(f"{said:<12}{check.statement}")
    if not verdict.lower_holds or verdict.upper_holds is False:
        return FAILED
    return DONE if verdict.upper_holds else LOWER_ONLY
