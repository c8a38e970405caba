"""``lipyomo range``, ``residual`` and ``lyapunov``: ranges of values over a domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from lipyomo.analyses.questions.values import value_range
from lipyomo.base.decimals import interval
from lipyomo.cli.entries import (
    add_entries,
    answers_in_turn,
    finish,
    kept_states,
    range_cells,
    read_question,
    read_rows,
    search_settings,
)
from lipyomo.cli.live import watched
from lipyomo.cli.options import KEPT, SHOWN, add_domain, add_limits, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.proving import check_provable, prove_values
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import UsageError
from lipyomo.problems.ranges import Range
from lipyomo.problems.settings import Settings

OF_VALUES = """\
exit codes:
  0  both ends of every row are known to 1e-6
  2  some are intervals: time limit, Ctrl-C, or a network that rounds its signals;
     or a proof has only what is attained
  1  the input was wrong

examples:
  lipyomo range net.onnx --box 0,1 --proof range.proof
  lipyomo range net.onnx --ball image.npy --radius 0.05 --functional 1,-1
"""

ABOUT_RESIDUALS = """\
What a differential equation leaves over, for a network that was trained to solve it:
the least and the largest value of an expression of the network, its derivatives and
its inputs over a domain.
"""

OF_RESIDUALS = """\
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

ABOUT_DERIVATIVES = """\
How V changes along the solutions of x' = g(x): the least and the largest value of
grad V . g over a domain, or over the part of it on which V is between two numbers.
Where the largest one is negative, V falls.
"""

OF_DERIVATIVES = """\
exit codes:
  0  both ends are known to 1e-6
  2  they are intervals, or the proof has no upper end: time limit, or Ctrl-C
  1  the input was wrong

example:
  lipyomo lyapunov V.onnx plant.onnx --box -2,2 --shell 0.1,1 --proof falls.proof
  lipyomo verify falls.proof V.onnx --along plant.onnx
"""


def of_values(words: Sequence[str]) -> int:
    """Run ``lipyomo range`` with these arguments; return the exit code."""
    about = "The least and the largest value of each output over a domain."
    parser = Parser("lipyomo range", about, OF_VALUES)
    add_entries(parser, everywhere=False)
    add_options(parser, *KEPT, "--proof", *SHOWN)
    arguments, began, given, domain = read_question(parser, words, rounds=True)
    network, quantised = given.network, given.quantised
    names, functionals = read_rows(arguments, network.output_dim)
    rows = dict(zip(names, functionals, strict=True))
    ranged = partial(value_range, network)
    if quantised is not None:
        from lipyomo.analyses.questions.quantised import quantised_range
        from lipyomo.cli.quantised import warn_rounded

        warn_rounded(quantised.rounded, arguments.quiet)
        if arguments.proof is not None:
            raise UsageError("--proof: there are no proofs of networks that round their signals")
        ranged = partial(quantised_range, quantised)
    if arguments.proof is not None:
        check_provable([network])
    with kept_states(arguments, network, domain, functionals) as file:

        def ask(name: str, settings: Settings) -> Range:
            return ranged(domain, rows[name], settings.keeping(file.part(name)))

        found = answers_in_turn(arguments, began, names, ask)
    inputs = network.input_names
    records = [{"row": name, **one.to_dict()} for name, one in zip(names, found, strict=True)]
    return finish(
        arguments,
        {"input_names": None if inputs is None else list(inputs), "ranges": records},
        lambda: print_table(
            ("", "least value", "largest value", "status", "nodes", "time"),
            [(name, *range_cells(one)) for name, one in zip(names, found, strict=True)],
        ),
        found,
        file.trouble,
        partial(prove_values, network, domain, found, list(functionals), arguments),
    )


def of_residuals(words: Sequence[str]) -> int:
    """Run ``lipyomo residual`` with these arguments; return the exit code."""
    parser = Parser("lipyomo residual", ABOUT_RESIDUALS, OF_RESIDUALS)
    add_options(parser, "NET", "--output-node", "--fix")
    add_options(parser, "--pde", required=True)
    add_domain(parser, everywhere=False)
    add_limits(parser)
    add_options(parser, "--proof", *SHOWN)
    arguments, began, given, domain = read_question(parser, words)
    from lipyomo.cli.pde import residual_of

    made = residual_of(given.network, arguments.pde)
    if arguments.proof is not None:
        check_provable([made])
    rows = list(np.eye(made.output_dim))
    names = [f"residual {k}" for k in range(len(rows))] if len(rows) > 1 else ["residual"]
    asked = dict(zip(names, rows, strict=True))
    found = answers_in_turn(
        arguments, began, names, lambda name, own: value_range(made, domain, asked[name], own)
    )

    def show() -> None:
        lines = []
        for name, one in zip(names, found, strict=True):
            size = interval(*one.magnitude) if math.isfinite(one.magnitude[1]) else "unknown"
            low, high, *spent = range_cells(one)
            lines.append((name, low, high, size, *spent))
        head = "", "least value", "largest value", "largest size", "status", "nodes", "time"
        print_table(head, lines)

    record = {"pde": str(arguments.pde), "ranges": [one.to_dict() for one in found]}
    proof = partial(prove_values, made, domain, found, rows, arguments)
    return finish(arguments, record, show, found, "", proof)


def of_derivatives(words: Sequence[str]) -> int:
    """Run ``lipyomo lyapunov`` with these arguments; return the exit code."""
    from lipyomo.analyses.questions.lie import field_of, lie_derivative
    from lipyomo.formats.onnx import check_against_runtime, load

    parser = Parser("lipyomo lyapunov", ABOUT_DERIVATIVES, OF_DERIVATIVES)
    add_options(parser, "NET", metavar="V", help="an ONNX file with one output")
    add_options(parser, "PLANT", "--shell")
    add_domain(parser, everywhere=False)
    add_limits(parser)
    add_options(parser, *KEPT, "--proof", *SHOWN)
    parser.set_defaults(output=None, fix=None)
    arguments, began, given, domain = read_question(parser, words)
    network, shell = given.network, arguments.shell
    plant = field_of(load(arguments.plant), network.input_dim)
    check_against_runtime(plant, arguments.plant, domain=domain)
    along = network
    if arguments.proof is not None:
        from lipyomo.proofs import lie_network

        along = lie_network(network, plant)
        check_provable([along, network])
    chosen = search_settings(arguments, arguments.time_limit, started=began)
    with watched(chosen, arguments.quiet) as settings:
        found = lie_derivative(network, plant, domain, None, settings, shell=shell)
    falls = True if found.high[1] < 0.0 else False if found.high[0] > 0.0 else None

    def show() -> None:
        word = {True: "falls", False: "rises somewhere", None: "open"}[falls]
        low, high, *spent = range_cells(found)
        titles = "least derivative", "largest derivative", "V", "status", "nodes", "time"
        print_table(titles, [(low, high, word, *spent)])

    record = {"plant": str(arguments.plant), "shell": shell, "falls": falls}
    inside = None if shell is None else (network, shell)
    rows = [np.ones(1)]
    proof = partial(
        prove_values, along, domain, [found], rows, arguments, shell=inside, ends="high"
    )
    return finish(
        arguments, {**record, "derivative": found.to_dict()}, show, [found], found.unwritten, proof
    )
