"""Proofs and other files that commands write after printing their results."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.base.system.outputs import shown
from lipyomo.cli.codes import Exit
from lipyomo.cli.interrupt import Interruption
from lipyomo.cli.live import live_line
from lipyomo.cli.streams import warn, wrote
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Result
from lipyomo.problems.run import PROVED

if TYPE_CHECKING:
    from lipyomo.problems.ranges import Range

ENDING = b"lipyomo: ending the proof with what is proved; Ctrl-C again leaves at once\n"

Stop = Callable[[], bool]


def write_beside(files: Mapping[str, Callable[[Stop], object]], aborted: bool = False) -> list[int]:
    """Write further files of a command, after its result.

    Parameters
    ----------
    files : mapping of str to callable
        By their kind, functions that write a file until they are stopped, and return False if it
        contains less than was asked for.
    aborted : bool, optional
        Whether the command was aborted; then `stop` is true from the beginning.

    Returns
    -------
    list of int
        Exit codes due to the files.
    """
    codes: list[int] = []
    name = ""
    with Interruption(ENDING) as interruption:
        stop = (lambda: True) if aborted else interruption.requested
        try:
            for name in files:
                codes.append(_written(files[name], stop))
        except KeyboardInterrupt:
            warn(f"left at once: the {name} was not written")
            codes.append(Exit.OPEN)
    return codes


def _written(write: Callable[[Stop], object], stop: Stop) -> int:
    """Write a file; return the resulting exit code."""
    answers: list[object] = []
    if not wrote(lambda: answers.append(write(stop))):
        return Exit.FAILED
    return Exit.OPEN if answers[0] is False else Exit.DONE


def prove_constant(
    problem: LipschitzProblem,
    result: Result,
    arguments: argparse.Namespace,
    stop: Stop,
    onnx: Path | None,
    certify: bool = False,
) -> bool:
    """Write the proof of a constant; after Ctrl-C or the time limit it has a looser interval.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    arguments : Namespace
        Has `proof`, `quiet` and `time_limit`, which is granted once more.
    stop : callable
    onnx : Path or None
        The file of the network, if the problem is about that network.
    certify : bool, optional
        See `lipyomo.proofs.write_proof`.

    Returns
    -------
    bool
        Whether the proof was not cut short.
    """
    from lipyomo.proofs import write_proof

    with _cases_shown(arguments, result.lower, result.upper) as report:
        case = arguments.proof, problem, result, onnx, stop, report, certify
        written = write_proof(*case, arguments.time_limit)
    count = _cases(written.cases)
    cut_short = False
    if written.upper is None:
        ends = "the lower end only"
        cut_short = certify or result.basis == PROVED
    elif close_enough(result.upper, written.upper):
        ends = f"both ends, {count}"
    else:  # there was no time for the tree
        ends = f"the lower end, and of {written.upper:.9g} from above, {count}"
        cut_short = True
    _report_end(ends, cut_short, written.basis, arguments, stop)
    return not cut_short


def prove_values(
    network: Network,
    domain: Domain,
    found: Sequence[Range],
    rows: Sequence[FloatArray],
    arguments: argparse.Namespace,
    stop: Stop,
    shell: tuple[Network, tuple[float, float]] | None = None,
    ends: str = "both",
) -> bool:
    """Write the proof of ranges in the same way; see `lipyomo.proofs.write_value_proof`."""
    from lipyomo.proofs import write_value_proof

    with _cases_shown(arguments, -math.inf, math.inf) as report:
        case = arguments.proof, network, domain, found, rows, shell, ends, stop, report
        written = write_value_proof(*case, arguments.time_limit)
    proved = written.upper is not None
    said = "the largest value" if ends == "high" else "both ends"
    said = f"{said}, {_cases(written.cases)}" if proved else "what is attained only"
    _report_end(said, not proved, written.basis, arguments, stop)
    return proved


@contextmanager
def _cases_shown(
    arguments: argparse.Namespace, lower: float, upper: float
) -> Iterator[Callable[[int], None]]:
    """Return a function that shows the number of cases of a proof, in a live line."""
    with live_line(arguments.quiet) as tracker:

        def report(cases: int) -> None:
            said = f"{cases} cases of the proof"
            tracker.update(Progress(0.0, lower, upper, message=said))

        yield report


def check_provable(networks: Sequence[Network]) -> None:
    """Refuse networks for which there are no proofs, before a search.

    Raises
    ------
    ProofError
    """
    from lipyomo.proofs.writing import check_units

    for network in networks:
        check_units(network)


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count > 1)}"


def _report_end(
    ends: str, cut_short: bool, basis: str | None, arguments: argparse.Namespace, stop: Stop
) -> None:
    """Print what the proof proves."""
    if cut_short:
        reason = basis or "the time limit cut the proof short"
        reason = "Ctrl-C cut the proof short" if stop() else reason
        warn(f"{reason}: the file proves {ends}: {shown(arguments.proof)}")
    elif not arguments.quiet:
        print(f"proof of {ends}: {arguments.proof}", file=sys.stderr)
