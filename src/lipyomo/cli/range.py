"""``lipyomo range``: the least and the largest value of each output over a domain."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.arrays import FloatArray
from lipyomo.cli.codes import Exit
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.inputs import read_domain
from lipyomo.cli.interrupt import Interruption, Leaving
from lipyomo.cli.live import FIRST, PERIOD
from lipyomo.cli.options import add, value
from lipyomo.cli.parser import Parser
from lipyomo.cli.source import read_network
from lipyomo.cli.streams import answer_only
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import UsageError, reader
from lipyomo.decimals import down, seconds, up
from lipyomo.domains import Domain
from lipyomo.network import Network
from lipyomo.ranges import Range
from lipyomo.result import Progress, Status
from lipyomo.run import Clock
from lipyomo.settings import Settings
from lipyomo.values import value_range

EPILOG = """\
exit codes:
  0  both ends of every row are known to 1e-6
  2  some are intervals: time limit, or Ctrl-C
  1  the input was wrong

examples:
  lipyomo range net.onnx --box 0,1
  lipyomo range net.onnx --ball image.npy --radius 0.05 --clip 0,1 --functional 1,-1 --json
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo range`` with the words after it; returns the exit code."""
    parser = Parser(
        "lipyomo range", "The least and the largest value of each output over a domain.", EPILOG
    )
    add(parser, "NET", CONFIG, "--output", "--fix")
    rows = parser.add_mutually_exclusive_group()
    text = "numbers of the outputs, such as 0,2 or 1: (all)"
    add(rows, "--entries", **value("I,J", text, reader("read_selection", "--entries")))
    add(rows, "--functional", help="c.f for numbers such as 1,-1 or a .npy file")
    domain = parser.add_argument_group("domain (one of --box, --ball, --polytope, --vnnlib)")
    kinds = domain.add_mutually_exclusive_group()
    add(kinds, "--box", "--ball", "--polytope", "--vnnlib")
    add(domain, "--radius", "--ball-norm", "--clip", "--part")
    add(parser, "--time-limit", "--memory-limit", "--workers", "--seed")
    add(parser, "--json", "--quiet", "--debug")
    arguments = parser.parse_args(words, Namespace(everywhere=False))
    began = time.monotonic()
    with Leaving():
        given = read_network(arguments)
        where = read_domain(arguments, given.network.input_dim)
        given.check(where)
    functionals = _functionals(arguments, given.network)
    found = _ranges(given.network, where, functionals, arguments, began)
    if arguments.json:
        rows_ = [{"row": name, **one.to_dict()} for name, one in found.items()]
        print(json.dumps({"network": str(arguments.network), "ranges": rows_}, allow_nan=False))
    else:
        _show(found)
    done = all(one.status is Status.EXACT for one in found.values())
    return Exit.DONE if done else Exit.OPEN


def _functionals(arguments: Namespace, network: Network) -> dict[str, FloatArray]:
    """What is to be bounded, by name."""
    m = network.output_dim
    if arguments.functional is not None:
        return {"c.f": arguments.functional}
    chosen = np.arange(m)
    if arguments.entries is not None:
        try:
            chosen = np.atleast_1d(chosen[arguments.entries])
        except IndexError as error:
            raise UsageError(f"--entries: the network has the outputs 0 to {m - 1}") from error
    return {f"output {i}": np.eye(m)[i] for i in chosen.tolist()}


def _ranges(
    network: Network,
    domain: Domain,
    functionals: dict[str, FloatArray],
    arguments: Namespace,
    began: float,
) -> dict[str, Range]:
    """The ranges, one after another; each may take its share of the time that is left."""
    found: dict[str, Range] = {}
    with answer_only(), Interruption() as interruption:
        clock = Clock(arguments.time_limit, interruption.requested, began)
        for name, row in functionals.items():
            share = clock.left / (len(functionals) - len(found))
            settings = Settings(
                time_limit=max(share, 1e-3),
                threads=arguments.workers,
                seed=arguments.seed,
                should_stop=interruption.requested,
                progress=None if arguments.quiet else _teller(name),
            )
            found[name] = value_range(network, domain, row, settings)
    return found


def _teller(name: str) -> Callable[[Progress], None]:
    """Says on stderr now and then how far one row is."""
    due = FIRST

    def tell(progress: Progress) -> None:
        nonlocal due
        if progress.seconds >= due:
            due = progress.seconds + PERIOD
            known = f"{name}: {progress.message}, {progress.nodes} nodes"
            print(f"{known}, {seconds(progress.seconds)}", file=sys.stderr, flush=True)

    return tell


def _show(found: dict[str, Range]) -> None:
    """Print a table."""
    print_table(
        ("", "least value", "largest value", "status", "nodes", "time"),
        [
            (
                name,
                f"[{down(one.low[0])}, {up(one.low[1])}]",
                f"[{down(one.high[0])}, {up(one.high[1])}]",
                str(one.status),
                str(one.nodes),
                seconds(one.seconds),
            )
            for name, one in found.items()
        ],
    )
