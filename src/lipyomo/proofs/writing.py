"""Writing proof files: the statement, the witness, and the tree of cases as it is made."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lipyomo.base.arguments import instance, real_number
from lipyomo.base.clock import Clock
from lipyomo.base.digest import file_digest
from lipyomo.base.errors import ProofError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.outputs import PROOF, check_output, written
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.activations import Derivative, Unbounded
from lipyomo.networks.network import Network
from lipyomo.primal.regions.replay import replay
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result
from lipyomo.problems.run import PROVED
from lipyomo.proofs.boxes import write_boxes
from lipyomo.proofs.context import Recording
from lipyomo.proofs.form import calls_for_boxes, format_of, is_shown, may_end
from lipyomo.proofs.pairs import UnfinishedError
from lipyomo.proofs.params import PARAMS
from lipyomo.proofs.recorder import Recorder
from lipyomo.proofs.records import (
    directions_record,
    domain_record,
    line_of,
    network_record,
    output_norm_record,
)
from lipyomo.proofs.undivided import slope_steps
from lipyomo_check.errors import ProofError as CheckError
from lipyomo_check.formats import Edition
from lipyomo_check.smooth.kinds import LARGEST, parameters_of
from lipyomo_check.statement import read_statement

_WITNESS = ("x", "rest", "functional", "pattern")
"""Fields of a witness in a proof; ``rest`` only for points that are not float64 numbers."""

_IN_BOXES = ("x", "functional")
"""Fields of a witness in a proof by boxes."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Written:
    """Summary of a written proof.

    Attributes
    ----------
    cases : int
        Number of cases; 0 if only the lower bound is proved.
    upper : float or None
        The proved upper bound, if any.
    basis : str or None
        What the upper bound rests on if it is not proved.
    """

    cases: int
    upper: float | None
    basis: str | None = field(default=None, compare=False)


def statement_of(
    problem: LipschitzProblem,
    result: Result,
    onnx: Path | None = None,
    certify: bool = False,
    boxes: bool = False,
) -> dict[str, Any]:
    """Make the first line of a proof.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    onnx : Path, optional
        The file of the network.
    certify : bool, optional
        Whether to also prove an upper bound that relies on a solver.
    boxes : bool, optional
        Whether to prove a piecewise-linear network by boxes; smooth ones always are.

    Raises
    ------
    ProofError
        If the result has no witness that exact arithmetic confirms, or no finite upper bound.
    """
    if result.witness is None:
        raise ProofError("a result without a witness proves nothing from below")
    if not np.isfinite(result.upper):
        raise ProofError("a result without an upper end proves nothing from above")
    if problem.free is not None:
        raise ProofError(
            "proofs know no infinite weights.  Remedy: give finite ones, or leave the proof out"
        )
    if problem.at_fixed.any():
        raise ProofError(
            "proofs know no derivatives along inputs that cannot move in the domain.  Remedy: give "
            "them a little width, or leave the proof out"
        )
    check_units(problem.network)
    boxes, along = boxes or problem.network.smooth, problem.directions
    witness = result.witness.to_dict()
    named = {key: witness[key] for key in (_IN_BOXES if boxes else _WITNESS) if key in witness}
    if boxes:
        lower = min(result.lower, result.witness.value)
        if problem.domain.rows.count or problem.domain.ball is not None:
            named["inside"] = _inner_point(problem)
    else:
        exact = replay(problem, result.witness)
        if not exact.holds:
            raise ProofError("exact arithmetic does not confirm the witness")
        lower = min(result.lower, exact.below)
    proved = certify or result.basis in (None, PROVED)
    return {
        "format": format_of(problem, boxes),
        "network": network_record(problem.network),
        "domain": domain_record(problem.domain),
        "input_norm": problem.norm,
        **({} if along is None else {"directions": directions_record(along)}),
        "output_norm": output_norm_record(problem),
        "lower": lower,
        "upper": _upper(result, boxes),
        "onnx": None if onnx is None else file_digest(onnx),
        "witness": named,
        "basis": None if proved else f"{result.method}: {result.basis}",
    }


def check_units(network: Network) -> None:
    """Check that the checker accepts all units.

    Raises
    ------
    ProofError
    """
    for layer in network.layers:
        for curve in layer.curves:
            name = curve.activation.true.name
            try:
                parameters_of(name)
            except CheckError:
                if isinstance(curve.activation.true, Derivative | Unbounded):
                    raise ProofError(
                        f"proofs do not know units of '{name}'.  Remedy: leave the proof out"
                    ) from None
                raise ProofError(
                    f"proofs know activations whose parameters are 0, or {1 / LARGEST:g} to "
                    f"{LARGEST:g} in size, which those of '{name}' are not.  Remedy: scale the "
                    "layers around it, or leave the proof out"
                ) from None


def _upper(result: Result, boxes: bool) -> float:
    """Return the upper bound to be proved.

    For boxes it has a margin for the checker's arithmetic, and is not closer to the lower bound
    than the tolerance of an exact result.
    """
    room = PARAMS.aim if boxes else PARAMS.room
    upper = float(np.nextafter(result.upper * (1.0 + room), np.inf))
    return max(upper, result.lower * (1.0 + 0.99 * EXACT_TOLERANCE)) if boxes else upper


def _inner_point(problem: LipschitzProblem) -> list[float]:
    """Return a point strictly inside the domain."""
    domain = problem.domain
    if not domain.holds_inside(domain.center):
        raise ProofError("no point was found strictly inside the domain")
    return [float(value) for value in domain.center]


@with_one_blas_thread
def write_proof(
    path: str | Path,
    problem: LipschitzProblem,
    result: Result,
    onnx: str | Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    certify: bool = False,
    time_limit: float = math.inf,
    boxes: bool | None = None,
) -> Written:
    """Write the proof of a result.

    If there is no time for the tree of cases of its upper bound, a looser bound that follows from
    the whole domain without any split is proved instead, if one was found in time.

    Parameters
    ----------
    path : path
        An existing proof is replaced only once the new one is complete; any other file is refused.
    problem : LipschitzProblem
        The original problem.
    result : Result
        If its upper bound relies on a solver, only the lower one is proved, and the file says so.
    onnx : path, optional
        The file of the network.
    stop : callable, optional
        Polled; True ends the proof of the upper bound.
    progress : callable, optional
        Called with the number of cases written so far.
    certify : bool, optional
        Whether to also prove an upper bound that relies on a solver.
    time_limit : float, optional
        Seconds after which the proof of the upper bound ends.
    boxes : bool, optional
        Whether to prove a piecewise-linear network by boxes, in float64 with all rounding errors
        counted, instead of by splits of units, in integers.  The default is boxes for networks with
        few inputs on domains so wide that bounds of the whole domain are useless.

    Returns
    -------
    Written

    Raises
    ------
    ProofError
        If there is no proof.
    OutputError
        If the file cannot or must not be written.
    """
    instance(problem, LipschitzProblem, "the problem", ProofError, "give a LipschitzProblem")
    instance(result, Result, "the result", ProofError, "give what lipyomo.solve returns")
    clock = Clock(real_number(time_limit, "the time limit", ProofError), stop)
    source = None if onnx is None else Path(onnx)
    check_output(path, PROOF, () if source is None else (source,))
    first, in_boxes, chosen = _first(problem, result, source, certify, boxes)
    with written(path, PROOF) as stream:
        cases = 0
        if first["basis"] is None:
            progress = progress or _quiet
            if in_boxes:
                cases, first = _write_boxes(stream, first, problem, result, clock, progress)
                if chosen and not (cases or clock.expired):
                    # where kinks meet in a point, bisection does not end
                    first, in_boxes = statement_of(problem, result, source, certify), False
            if not in_boxes:
                recording = Recording.of(problem, read_statement(first), clock, PARAMS)
                cases, first = _write_cases(stream, first, recording, result, progress)
        if first["basis"] is not None:
            _write(stream, first, iter(()), lambda: None)
    return Written(cases, first["upper"] if cases else None, first["basis"])


def _first(
    problem: LipschitzProblem,
    result: Result,
    onnx: Path | None,
    certify: bool,
    boxes: bool | None,
) -> tuple[dict[str, Any], bool, bool]:
    """Return a proof's first line, whether it is by boxes, and whether that was chosen here."""
    first = partial(statement_of, problem, result, onnx, certify)
    if problem.network.smooth:
        return first(), True, False
    if calls_for_boxes(problem, result) if boxes is None else boxes:
        found = first(boxes=True)
        if is_shown(found):
            return found, True, not boxes
        if boxes:
            raise ProofError(
                "the checker of boxes does not take the witness, which lies between float64 "
                "numbers, or at a kink.  Remedy: leave boxes= out"
            )
    return first(), False, True


def _quiet(cases: int) -> None:
    """Ignore progress."""


def _write_cases(
    stream: BinaryIO,
    first: dict[str, Any],
    recording: Recording,
    result: Result,
    progress: Progress,
) -> tuple[int, dict[str, Any]]:
    """Write the tree of cases; return their number, and the final first line."""
    recorder = Recorder(recording, result.look_ahead)
    try:
        _write(stream, first, recorder.nodes(), lambda: progress(recorder.cases))
        return recorder.cases, first
    except UnfinishedError:
        _empty(stream)
    if recorder.undivided is None:
        return 0, _open(first, result, "its tree of cases was not written to its end in time")
    upper, steps = recorder.undivided
    first = first | {"upper": upper}
    _write(stream, first, iter([steps]), lambda: None)
    return 1, first


def _write_boxes(
    stream: BinaryIO,
    first: dict[str, Any],
    problem: LipschitzProblem,
    result: Result,
    clock: Clock,
    progress: Progress,
) -> tuple[int, dict[str, Any]]:
    """Do the same by boxes: by ranges of slopes of smooth units, or else by a tree of boxes.

    With many inputs a tree is rarely completed in time; then the looser upper bound by ranges of
    slopes, if there is one, is proved instead.
    """
    statement, reason = read_statement(first), "its multipliers were not found in time"
    domain, found = problem.domain, None
    try:
        if first["format"] == Edition.SMOOTH.value and not may_end(domain):
            some = clock.part() if domain.is_bounded else clock
            found = slope_steps(problem, statement, some)
        if domain.is_bounded and (found is None or found[0] > statement.upper):
            with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                packed.write(line_of(first))
                return write_boxes(statement, clock, packed.write, progress), first
    except (UnfinishedError, CheckError) as error:
        _empty(stream)
        reason = str(error)
    if found is None:
        return 0, _open(first, result, reason)
    upper, steps = found
    first = first | {"upper": upper, "slopes": True}
    _write(stream, first, iter([steps]), lambda: None)
    return 1, first


def _empty(stream: BinaryIO) -> None:
    """Delete what was written."""
    stream.seek(0)
    stream.truncate()


def _open(first: dict[str, Any], result: Result, reason: str) -> dict[str, Any]:
    """Return the first line of a proof whose upper bound is not proved."""
    return first | {"basis": f"{result.method}: {reason}"}


def write_open(stream: BinaryIO, first: dict[str, Any], basis: str) -> None:
    """Replace all that was written by a proof of the attained values alone."""
    _empty(stream)
    _write(stream, first | {"basis": basis}, iter(()), lambda: None)


def _write(
    raw: BinaryIO, first: dict[str, Any], nodes: Iterator[Any], progress: Callable[[], object]
) -> None:
    """Write the lines of a proof as they are generated."""
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        stream.write(line_of(first))
        for value in nodes:
            stream.write(line_of(value))
            progress()
