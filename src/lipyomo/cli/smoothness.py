"""``lipyomo smoothness``: Lipschitz constants of gradients over a domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lipyomo.analyses.questions.curvature import (
    Curvature,
    curvature,
    smoothness,
    smoothness_problem,
)
from lipyomo.base.decimals import interval, seconds
from lipyomo.cli.entries import (
    add_entries,
    answers_in_turn,
    finish,
    kept_states,
    read_question,
    read_rows,
)
from lipyomo.cli.options import KEPT, SHOWN, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.proving import check_provable, prove_constant
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import UsageError
from lipyomo.problems.result import Result
from lipyomo.problems.settings import Settings

ABOUT = """\
The Lipschitz constant of the gradient of each output over a domain: the largest
norm of its Hessian, from the norm of the inputs to the dual one.
"""

EPILOG = """\
exit codes:
  0  everything that was asked is known to 1e-6
  2  some are intervals, or the proof has a looser one: time limit, or Ctrl-C
  1  the input was wrong: no gradient that is continuous, for one

examples:
  lipyomo smoothness net.onnx --box -1,1
  lipyomo smoothness net.onnx --box -1,1 --norm l2 --eigenvalues
  lipyomo smoothness net.onnx --box -1,1 --functional 1,-1 --proof smooth.proof
  lipyomo verify smooth.proof net.onnx --smoothness --functional 1,-1
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo smoothness`` with these arguments; return the exit code."""
    parser = Parser("lipyomo smoothness", ABOUT, EPILOG)
    add_entries(parser, everywhere=True)
    add_options(parser, "--norm", "--eigenvalues", *KEPT, "--proof", *SHOWN)
    arguments, began, given, domain = read_question(parser, words)
    network = given.network
    names, functionals = read_rows(arguments, network.output_dim)
    problem = None
    if arguments.proof is not None:
        if len(names) > 1:
            raise UsageError(
                f"--proof is about one gradient, and there are {len(names)}.  Remedy: choose an "
                "output, for example --entries 0"
            )
        problem = smoothness_problem(network, domain, arguments.norm, functionals[0])
        check_provable([problem.network])
    rows = dict(zip(names, functionals, strict=True))
    each = 2 if arguments.eigenvalues else 1
    questions = {
        question: name for name in names for question in (name, f"{name}, eigenvalues")[:each]
    }
    with kept_states(arguments, network, domain, functionals, arguments.norm) as file:

        def ask(question: str, settings: Settings) -> Result | Curvature:
            row, own = rows[questions[question]], settings.keeping(file.part(question))
            if question in rows:
                return smoothness(network, domain, arguments.norm, row, own)
            return curvature(network, domain, row, own)

        found = answers_in_turn(arguments, began, list(questions), ask)
    pairs = list(zip(questions.values(), found, strict=True))
    constants = {name: one for name, one in pairs if isinstance(one, Result)}
    bends = {name: one for name, one in pairs if isinstance(one, Curvature)}
    records: list[dict[str, Any]] = [
        {"row": name, "smoothness": one.to_dict()}
        | ({"eigenvalues": bends[name].to_dict()} if name in bends else {})
        for name, one in constants.items()
    ]
    proof = None
    if problem is not None:
        case = problem, constants[names[0]], arguments
        proof = partial(prove_constant, *case, onnx=None)
    record = {"norm": arguments.norm, "rows": records}
    return finish(arguments, record, lambda: _show(constants, bends), found, file.trouble, proof)


def _show(constants: dict[str, Result], bends: dict[str, Curvature]) -> None:
    """Print tables."""
    print_table(
        ("", "smoothness constant", "status", "nodes", "time"),
        [
            (name, interval(one.lower, one.upper), one.status, str(one.nodes), seconds(one.seconds))
            for name, one in constants.items()
        ],
    )
    if bends:
        print()
        print_table(
            ("", "least eigenvalue", "largest eigenvalue", "", "status", "nodes", "time"),
            [
                (
                    name,
                    interval(*one.least),
                    interval(*one.largest),
                    _word(one),
                    one.status,
                    str(one.nodes),
                    seconds(one.seconds),
                )
                for name, one in bends.items()
            ],
        )


def _word(one: Curvature) -> str:
    if one.convex or one.concave:
        return "convex" if one.convex else "concave"
    return "neither" if one.convex is False and one.concave is False else "open"
