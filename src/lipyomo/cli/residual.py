"""``lipyomo residual``: the range of an expression of a network, its derivatives and its inputs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from lipyomo.analyses.questions.values import value_range
from lipyomo.base.decimals import interval
from lipyomo.cli.codes import Exit
from lipyomo.cli.entries import answers_in_turn, range_cells, read_case
from lipyomo.cli.options import SHOWN, add_domain, add_limits, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.pde import residual_of
from lipyomo.cli.proving import check_provable, prove_values, with_proof
from lipyomo.cli.tables import print_table
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Status

ABOUT = """\
What a differential equation leaves over, for a network that was trained to solve it:
the least and the largest value of an expression of the network, its derivatives and
its inputs over a domain.
"""

EPILOG = """\
The Python file is run; it has a function of the outputs and the inputs, such as

  names = ["t", "x"]  # of the inputs, if the network has none

  def residual(u, x):
      return u.dt + u * u.dx - 0.01 * u.dxx

u.d(0), u.d(1, 1) and x[0] go by numbers, u[k] is one of several outputs; x.t and
numpy's sin, cos, exp ... are there, too.  It returns one expression or a list.

exit codes:
  0  both ends of every expression are known to 1e-6
  2  some are intervals, or a proof has only what is attained: time limit, or Ctrl-C
  1  the input was wrong

examples (the third is a picture):
  lipyomo residual net.onnx --pde burgers.py --box 0:1,-1:1 --proof left.proof
  lipyomo verify left.proof net.onnx --pde burgers.py
  lipyomo map net.onnx --pde burgers.py --box 0:1,-1:1 --cells 64x64 --plot map.svg
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo residual`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo residual", ABOUT, EPILOG)
    add_options(parser, "NET", "--output-node", "--fix")
    add_options(parser, "--pde", required=True)
    add_domain(parser, everywhere=False)
    add_limits(parser)
    add_options(parser, "--proof", *SHOWN)
    arguments = parser.parse_args(words)
    network, domain = read_case(arguments, began)
    made = residual_of(network, arguments.pde)
    if arguments.proof is not None:
        check_provable([made])
    rows = list(np.eye(made.output_dim))
    names = [f"residual {k}" for k in range(len(rows))] if len(rows) > 1 else ["residual"]
    asked = dict(zip(names, rows, strict=True))
    found = answers_in_turn(
        arguments, began, names, lambda name, own: value_range(made, domain, asked[name], own)
    )
    if arguments.json:
        records = [one.to_dict() for one in found]
        head = {"network": str(arguments.network), "pde": str(arguments.pde)}
        print(json.dumps({**head, "ranges": records}, allow_nan=False))
    else:
        _show(dict(zip(names, found, strict=True)))
    code = Exit.DONE if all(one.status is Status.EXACT for one in found) else Exit.OPEN
    if arguments.proof is None:
        return code
    case = made, domain, found, rows, arguments
    return with_proof(code, lambda stop: prove_values(*case, stop))


def _show(found: Mapping[str, Range]) -> None:
    """Print a table."""
    rows = []
    for name, one in found.items():
        size = interval(*one.magnitude) if math.isfinite(one.magnitude[1]) else "unknown"
        low, high, *spent = range_cells(one)
        rows.append((name, low, high, size, *spent))
    head = "", "least value", "largest value", "largest size", "status", "nodes", "time"
    print_table(head, rows)
