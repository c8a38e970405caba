"""Quantised networks on the command line: ranges of values, as they have no constants."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from lipyomo.analyses.api import without_methods
from lipyomo.analyses.questions.quantised import domain_with_errors, quantised_largest
from lipyomo.base.decimals import seconds
from lipyomo.base.errors import NormError
from lipyomo.cli.entries import code_of
from lipyomo.cli.live import watched
from lipyomo.cli.problems import SeveralDomains, problem_on, read_domains, read_notes
from lipyomo.cli.show import largest_lines, print_lines, problem_record
from lipyomo.cli.source import NamedNetwork
from lipyomo.cli.words import UsageError
from lipyomo.networks.building.budget import limits, spending
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings
from lipyomo.version import __version__

OF_CONSTANTS = (
    "proof", "plot", "history", "cross_check", "wrt", "weights", "directions",
)  # fmt: skip
"""Options that apply to constants only."""


def warn_rounded(count: int, quiet: bool) -> None:
    """Print how many signals a network rounds, and the meaning of its bounds."""
    if not quiet:
        print(
            f"{count} signals are rounded: outer ends are proved for all errors of up to half a "
            "step, inner ends are values of the quantised network",
            file=sys.stderr,
        )


def bound_values(
    given: NamedNetwork, arguments: argparse.Namespace, settings: Settings, notes: Sequence[str]
) -> int:
    """Print the largest value of a step function, and return the exit code.

    Raises
    ------
    LipyomoError
        If the input is wrong, or an option applies to constants only.
    """
    assert given.quantised is not None
    for name in OF_CONSTANTS:
        if getattr(arguments, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is about the constant of a difference, and there is "
                "none: one network is quantised, and its values jump.  Remedy: leave it out"
            )
    domains = read_domains(arguments, given.input_dim)
    problems = [
        problem_on(arguments, given.network, domain_with_errors(given.quantised, one))
        for one in domains
    ]
    if any(one.dual_vertices is None for one in problems):
        raise NormError(
            f"values in the norm {problems[0].output_norm.name} are not bounded.  Remedy: take "
            "linf, cross or a functional"
        )
    with spending(limits(settings.time_limit, arguments.memory_limit)):
        given.check(SeveralDomains(tuple(domains)))
    warn_rounded(given.quantised.rounded, arguments.quiet)
    with watched(without_methods(settings, keeps=True), arguments.quiet) as own:
        found = quantised_largest(given.quantised, problems, own)
    notes = [*notes, *read_notes(arguments)]
    record = problem_record(problems[0], str(arguments.network))
    record |= {"inputs": given.input_dim, "domain": [one.describe() for one in domains]}
    if arguments.json:
        record |= {"minus": str(arguments.minus), "rounded": given.quantised.rounded}
        answer = {"largest_value": found.to_dict(), "warnings": notes}
        print(json.dumps({**answer, "problem": record, "version": __version__}, allow_nan=False))
    else:
        print_lines(
            [
                *largest_lines(found.to_dict()),
                ("constant", "none: the quantised network is a step function"),
                ("norm", problems[0].output_norm.name),
                ("domain", "; ".join(record["domain"])),
                ("network", f"{given.network.name}: {given.network.describe()}"),
                ("time", f"{seconds(found.seconds)}, {found.nodes} nodes"),
                *(("warning", text) for text in notes),
            ]
        )
    return code_of(found.status is Status.EXACT, found.unwritten)
