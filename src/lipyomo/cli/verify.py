"""``lipyomo verify``: check a proof file against a network with the independent checker."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.outputs import PROOF, OutputError, is_of
from lipyomo.base.system.parallel import Workers
from lipyomo.base.system.processes import PAUSE
from lipyomo.cli.codes import Exit
from lipyomo.cli.interrupt import Leaving
from lipyomo.cli.options import SHOWN, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.pde import residual_of
from lipyomo.cli.source import network_given_by
from lipyomo.cli.words import UsageError
from lipyomo.formats.onnx import check_against_runtime, load
from lipyomo.networks.derivatives.gradients import tilted_gradient
from lipyomo.networks.digest import network_digest
from lipyomo.networks.network import Network
from lipyomo.problems.ranges import chosen_functional
from lipyomo_check import ProofError, Verdict, check_proof
from lipyomo_check.check import stated

EPILOG = """\
exit codes:
  0  both ends of the interval are proved
  2  the lower end is proved; the upper end rests on what the proof says
  1  the proof does not hold, or the input was wrong
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo verify`` with these arguments; return the exit code."""
    arguments = _parser().parse_args(words)
    with Leaving():
        try:
            given = network_given_by(arguments)
        except LipyomoError as error:
            if _swapped(arguments.proof, arguments.network):
                message = "the proof comes first.  Remedy: lipyomo verify PROOF NET"
                raise UsageError(message) from error
            raise
        given.check()
        about, made = _about(given.network, arguments)
    several = arguments.workers > 1
    try:
        with Workers[Any, Any](arguments.workers, helping=True) as pool:
            verdict = check_proof(
                arguments.proof,
                None if made else given.only,
                network_digest(about),
                _progress(arguments.quiet),
                arguments.workers,
                pool.executor if several else None,
                arguments.strict,
                network_digest(given.network),
            )
    except ProofError as error:
        raise LipyomoError(f"the proof does not hold: {error}") from None
    if arguments.json:
        print(json.dumps(_record(verdict), allow_nan=False))
    else:
        print("\n".join(verdict.words()))
    return Exit.DONE if verdict.upper_proved else Exit.OPEN


def _about(network: Network, arguments: Namespace) -> tuple[Network, bool]:
    """Return the network of the proof, and whether it is derived from that of the file.

    Raises
    ------
    UsageError, LipyomoError
        If options exclude each other, or the network cannot be derived.
    """
    if arguments.functional is not None and not arguments.smoothness:
        raise UsageError("--functional needs --smoothness: other proofs say theirs")
    if arguments.along is not None:
        from lipyomo.proofs import lie_network

        field = load(arguments.along)
        check_against_runtime(field, arguments.along)
        return lie_network(network, field), True
    if arguments.pde is not None:
        return residual_of(network, arguments.pde), True
    if arguments.smoothness:
        row = chosen_functional(network, arguments.functional)
        try:
            moving = stated(arguments.proof).domain.moving
        except ProofError as error:
            raise LipyomoError(f"the proof does not hold: {error}") from None
        if moving[-1] < network.input_dim:
            return tilted_gradient(network, row, np.array(moving)), True
    return network, False


def _parser() -> Parser:
    parser = Parser(
        "lipyomo verify",
        "Check a proof that 'lipyomo NET ... --proof FILE' wrote, without solving anything.",
        EPILOG,
    )
    add_options(parser, "PROOF")
    add_options(parser, "NET", help="the ONNX file it is about")
    add_options(parser, "--output-node", "--fix", "--minus")
    text = "of a proof of 'lipyomo residual': the Python file, which is run"
    made = parser.add_mutually_exclusive_group()
    add_options(made, "--along")
    add_options(made, "--pde", help=text)
    add_options(made, "--smoothness")
    text = "with --smoothness: that of its outputs, such as 1,-1"
    add_options(parser, "--functional", help=text)
    add_options(parser, "--workers", default=1, help="processes that check cases (1)")
    add_options(parser, "--strict", *SHOWN)
    return parser


def _swapped(proof: Path, network: Path) -> bool:
    """Return whether proof and network were given in the wrong order."""
    with suppress(OutputError):
        return is_of(network, PROOF) and not is_of(proof, PROOF)
    return False


def _record(verdict: Verdict) -> dict[str, object]:
    """Return what was proved as plain data."""
    statement = verdict.statement
    values = {}
    if statement.ends is not None:
        rows = zip(statement.vertices or [], statement.ends, strict=True)
        named = [{"functional": row, "lower": ends[0], "upper": ends[1]} for row, ends in rows]
        values = {"largest_values": named}
    return {
        "lower": statement.lower,
        "upper": statement.upper,
        **values,
        "lower_proved": True,
        "upper_proved": verdict.upper_proved,
        "cases": verdict.nodes,
        "words": verdict.words(),
    }


def _progress(quiet: bool) -> Callable[[int], None] | None:
    """Return a callback that prints the number of checked cases on a terminal."""
    if quiet or not sys.stderr.isatty():
        return None
    last = time.monotonic()

    def show(nodes: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            print(f"\r{nodes} cases checked", end="", file=sys.stderr, flush=True)

    return show
