"""``lipyomo range``: the range of each output over a domain."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from lipyomo.analyses.questions.quantised import quantised_range
from lipyomo.analyses.questions.values import value_range
from lipyomo.cli.entries import (
    add_entries,
    answers_in_turn,
    code_of,
    kept_states,
    range_cells,
    read_given,
    read_rows,
)
from lipyomo.cli.options import KEPT, SHOWN, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.proving import check_provable, prove_values, with_proof
from lipyomo.cli.quantised import warn_rounded
from lipyomo.cli.settings import check_kept
from lipyomo.cli.tables import print_table
from lipyomo.cli.words import UsageError
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings

EPILOG = """\
exit codes:
  0  both ends of every row are known to 1e-6
  2  some are intervals: time limit, Ctrl-C, or a network that rounds its signals;
     or a proof has only what is attained
  1  the input was wrong

examples:
  lipyomo range net.onnx --box 0,1 --proof range.proof
  lipyomo range net.onnx --ball image.npy --radius 0.05 --functional 1,-1
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo range`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser(
        "lipyomo range", "The least and the largest value of each output over a domain.", EPILOG
    )
    add_entries(parser, everywhere=False)
    add_options(parser, *KEPT)
    add_options(parser, "--proof", *SHOWN)
    arguments = parser.parse_args(words)
    check_kept(arguments)
    given, domain = read_given(arguments, began, rounds=True)
    network = given.network
    names, functionals = read_rows(arguments, network.output_dim)
    rows = dict(zip(names, functionals, strict=True))
    if given.quantised is not None:
        warn_rounded(given.quantised.rounded, arguments.quiet)
    if arguments.proof is not None:
        if given.quantised is not None:
            raise UsageError("--proof: there are no proofs of networks that round their signals")
        check_provable([network])
    with kept_states(arguments, network, domain, functionals) as file:

        def ask(name: str, settings: Settings) -> Range:
            own = settings.keeping(file.part(name))
            if given.quantised is not None:
                return quantised_range(given.quantised, domain, rows[name], own)
            return value_range(network, domain, rows[name], own)

        found = dict(zip(names, answers_in_turn(arguments, began, names, ask), strict=True))
    if arguments.json:
        inputs = network.input_names
        named = {"input_names": None if inputs is None else list(inputs)}
        records = [{"row": name, **one.to_dict()} for name, one in found.items()]
        print(
            json.dumps(
                {"network": str(arguments.network), **named, "ranges": records}, allow_nan=False
            )
        )
    else:
        _show(found)
    code = code_of(all(one.status is Status.EXACT for one in found.values()), file.trouble)
    if arguments.proof is None:
        return code
    case = network, domain, list(found.values()), list(functionals), arguments
    return with_proof(code, lambda stop: prove_values(*case, stop))


def _show(found: dict[str, Range]) -> None:
    """Print a table."""
    print_table(
        ("", "least value", "largest value", "status", "nodes", "time"),
        [(name, *range_cells(one)) for name, one in found.items()],
    )
