"""``lipyomo lyapunov``: the range of a Lie derivative along the solutions of a system."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import numpy as np

from lipyomo.analyses.questions.lie import field_of, lie_derivative
from lipyomo.cli.entries import code_of, range_cells, read_case, search_settings
from lipyomo.cli.live import watched
from lipyomo.cli.options import KEPT, SHOWN, add_domain, add_limits, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.proving import check_provable, prove_values, with_proof
from lipyomo.cli.settings import check_kept
from lipyomo.cli.tables import print_table
from lipyomo.formats.onnx import check_against_runtime, load
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Status

ABOUT = """\
How V changes along the solutions of x' = g(x): the least and the largest value of
grad V . g over a domain, or over the part of it on which V is between two numbers.
Where the largest one is negative, V falls.
"""

EPILOG = """\
exit codes:
  0  both ends are known to 1e-6
  2  they are intervals, or the proof has no upper end: time limit, or Ctrl-C
  1  the input was wrong

example:
  lipyomo lyapunov V.onnx plant.onnx --box -2,2 --shell 0.1,1 --proof falls.proof
  lipyomo verify falls.proof V.onnx --along plant.onnx
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo lyapunov`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo lyapunov", ABOUT, EPILOG)
    add_options(parser, "NET", metavar="V", help="an ONNX file with one output")
    add_options(parser, "PLANT", "--shell")
    add_domain(parser, everywhere=False)
    add_limits(parser)
    add_options(parser, *KEPT)
    add_options(parser, "--proof", *SHOWN)
    parser.set_defaults(output=None, fix=None)
    arguments = parser.parse_args(words)
    check_kept(arguments)
    network, domain = read_case(arguments, began)
    plant = field_of(load(arguments.plant), network.input_dim)
    check_against_runtime(plant, arguments.plant, domain=domain)
    along = None
    if arguments.proof is not None:
        from lipyomo.proofs import lie_network

        along = lie_network(network, plant)
        check_provable([along, network])
    chosen = search_settings(arguments, arguments.time_limit, started=began)
    with watched(chosen, arguments.quiet) as settings:
        found = lie_derivative(network, plant, domain, None, settings, shell=arguments.shell)
    if arguments.json:
        head = {"network": str(arguments.network), "plant": str(arguments.plant)}
        where = {"shell": arguments.shell, "falls": _falls(found)}
        print(json.dumps({**head, **where, "derivative": found.to_dict()}, allow_nan=False))
    else:
        word = {True: "falls", False: "rises somewhere", None: "open"}[_falls(found)]
        low, high, *spent = range_cells(found)
        titles = "least derivative", "largest derivative", "V", "status", "nodes", "time"
        print_table(titles, [(low, high, word, *spent)])
    code = code_of(found.status is Status.EXACT, found.unwritten)
    if along is None:
        return code
    shell = None if arguments.shell is None else (network, arguments.shell)
    case = along, domain, [found], [np.ones(1)], arguments
    return with_proof(code, lambda stop: prove_values(*case, stop, shell, "high"))


def _falls(found: Range) -> bool | None:
    """Return whether V falls everywhere; None if this is not decided."""
    return True if found.high[1] < 0.0 else False if found.high[0] > 0.0 else None
