"""Writing proof files: the statement, the witness, and the tree of cases as it is made."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from lipyomo.arguments import deprecated
from lipyomo.digest import file_digest
from lipyomo.domains import Domain
from lipyomo.errors import ProofError
from lipyomo.network import Layer
from lipyomo.outputs import PROOF, check_output, written
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.context import Recording
from lipyomo.proofs.params import PARAMS
from lipyomo.proofs.recorder import Recorder, Unfinished
from lipyomo.proofs.replay import replay
from lipyomo.result import Result
from lipyomo.run import PROVED, Clock
from lipyomo_check.statement import FORMAT, read_statement

_WITNESS = ("x", "rest", "functional", "pattern")
"""What a proof holds of a witness; ``rest`` only between float64 numbers."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Written:
    """What a proof file proves.

    Attributes
    ----------
    cases : int
        0 if only the lower end is proved.
    upper : float or None
        The upper end that is proved.
    """

    cases: int
    upper: float | None


def statement_of(
    problem: LipschitzProblem, result: Result, onnx: Path | None = None, certify: bool = False
) -> dict[str, Any]:
    """The first line of a proof.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    onnx : Path, optional
        The file that the network came from.
    certify : bool, optional
        Whether an upper end that rests on a solver is to be proved as well.

    Raises
    ------
    ProofError
        If the result has no witness that exact arithmetic confirms, or no finite upper end.
    """
    if result.witness is None:
        raise ProofError("a result without a witness proves nothing from below")
    exact = replay(problem, result.witness)
    if not exact.holds:
        raise ProofError("exact arithmetic does not confirm the witness")
    if not np.isfinite(result.upper):
        raise ProofError("a result without an upper end proves nothing from above")
    witness = result.witness.to_dict()
    proved = certify or result.basis in (None, PROVED)
    return {
        "format": FORMAT,
        "network": [_layer(layer) for layer in problem.network.layers],
        "domain": _domain(problem.domain),
        "input_norm": problem.input_norm,
        "output_norm": _output_norm(problem),
        "lower": min(result.lower, exact.below),
        "upper": float(np.nextafter(result.upper * (1.0 + PARAMS.room), np.inf)),
        "onnx": None if onnx is None else file_digest(onnx),
        "witness": {key: witness[key] for key in _WITNESS if key in witness},
        "basis": None if proved else f"{result.method}: {result.basis}",
    }


def check_provable(problem: LipschitzProblem) -> None:
    """Raise `ProofError` unless proofs of the problem's kind of network can be written."""
    network = problem.network
    if network.smooth:
        raise ProofError(
            "proofs are for piecewise-linear networks, and this one has smooth units "
            f"({', '.join(network.activations)}).  Remedy: leave the proof out; both ends of the "
            "interval are bounded with directed rounding in any case"
        )


def write_proof(
    path: str | Path,
    problem: LipschitzProblem,
    result: Result,
    onnx: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    certify: bool = False,
    time_limit: float = math.inf,
    told: Progress | None = None,
) -> Written:
    """Write the proof of a result.

    Where there is no time for the tree of cases of its upper end, the one that follows from the
    whole domain, without any split, is proved instead, if there was time for that.

    Parameters
    ----------
    path : path
        Another proof there is replaced at the end only, and any other file not at all: a proof that
        is not finished changes nothing.
    problem : LipschitzProblem
        The original problem.
    result : Result
        What rests on a solver is proved from below only, and says so.
    onnx : Path, optional
        The file that the network came from.
    stop : callable, optional
        Polled; True ends the proof of the upper end.
    progress : callable, optional
        Called with the number of cases that are written.
    certify : bool, optional
        Prove the upper end also where it rests on a solver.
    time_limit : float, optional
        Seconds, after which the proof of the upper end ends.
    told : callable, optional
        Deprecated: `progress`.

    Returns
    -------
    Written

    Raises
    ------
    ProofError
        If there is no proof, or none can be: networks with smooth units have none yet.
    OutputError
        If the file cannot or must not be written.
    """
    if told is not None:
        deprecated("told=", "progress=")
        progress = told
    check_provable(problem)
    clock = Clock(time_limit, stop)
    check_output(path, PROOF, () if onnx is None else (onnx,))
    first = statement_of(problem, result, onnx, certify)
    with written(path, PROOF) as stream:
        cases = 0
        if first["basis"] is None:
            statement = read_statement(first)
            recording = Recording.of(problem, statement, clock, PARAMS)
            recorder = Recorder(recording, result.look_ahead)
            try:
                _write(
                    stream, first, recorder.nodes(), lambda: progress and progress(recorder.cases)
                )
                cases = recorder.cases
            except Unfinished:
                stream.seek(0)
                stream.truncate()
                if recorder.undivided is None:
                    reason = "its tree of cases was not written to its end"
                    first["basis"] = f"{result.method}: {reason}"
                else:
                    cases, (first["upper"], steps) = 1, recorder.undivided
                    _write(stream, first, iter([steps]), lambda: None)
        if first["basis"] is not None:
            _write(stream, first, iter(()), lambda: None)
    return Written(cases, first["upper"] if cases else None)


def _write(
    raw: BinaryIO, first: dict[str, Any], nodes: Iterator[Any], progress: Callable[[], object]
) -> None:
    """Write the lines of a proof as they are made."""
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        stream.write(_line(first))
        for value in nodes:
            stream.write(_line(value))
            progress()


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _layer(layer: Layer) -> dict[str, Any]:
    """A layer with all its numbers."""
    rows: list[Any]
    matrix = sp.csr_array(layer.weight, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.nnz <= PARAMS.sparse * layer.units * layer.inputs:
        parts = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        rows = [[matrix.indices[a:b].tolist(), matrix.data[a:b].tolist()] for a, b in parts]
    else:
        rows = layer.dense_weight.tolist()
    return {
        "inputs": layer.inputs,
        "weight": rows,
        "bias": layer.bias.tolist(),
        "left": layer.left.tolist(),
        "right": layer.right.tolist(),
    }


def _number(value: float) -> float | str:
    if np.isfinite(value):
        return float(value)
    return "inf" if value > 0 else "-inf"


def _domain(domain: Domain) -> dict[str, Any]:
    """A domain; a ball's bounding box is rounded outwards."""
    low, high, ball = domain.lower, domain.upper, None
    if domain.ball is not None:
        point, radius, clip = domain.ball.point, domain.ball.radius, domain.ball.clip
        low = np.maximum(clip[0], np.nextafter(point - radius, -np.inf))
        high = np.minimum(clip[1], np.nextafter(point + radius, np.inf))
        ball = {"norm": domain.ball.norm, "center": point.tolist(), "radius": radius}
    rows = domain.rows
    return {
        "lower": [_number(v) for v in low.tolist()],
        "upper": [_number(v) for v in high.tolist()],
        "A": rows.A.toarray().tolist(),
        "b": rows.b.tolist(),
        "ball": ball,
    }


def _output_norm(problem: LipschitzProblem) -> Any:
    """The output norm by its name, or by the vertices of its dual ball."""
    norm = problem.output_norm
    if norm.kind in ("l1", "l2", "linf", "cross"):
        return norm.name
    if norm.label is not None:
        return {"cross": norm.label}
    vertices = problem.dual_vertices
    if vertices is None:
        raise ProofError(f"the dual ball of {norm.name} has too many vertices for a proof")
    return {"vertices": vertices.tolist()}
