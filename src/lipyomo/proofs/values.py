"""Proofs of largest values: of a network, of a Lie derivative, on a domain or a shell in it."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProofError
from lipyomo.base.system.outputs import PROOF, check_output, written
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.derivatives import gradient, product
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.ranges import Range, check_parts, chosen_functional
from lipyomo.proofs.boxes import UnfinishedError, write_boxes
from lipyomo.proofs.params import PARAMS
from lipyomo.proofs.records import domain_record, line_of, network_record
from lipyomo.proofs.writing import Progress, Written, check_units
from lipyomo_check.errors import ProofError as CheckError
from lipyomo_check.statement import PRODUCT_FORMAT, read_statement

Ends = tuple[float, float]


def lie_network(V: Network, field: Network) -> Network:
    """``grad V(x) . g(x)`` as a network with one output.

    Raises
    ------
    NetworkError
        If V is not smooth, or the field does not fit.
    """
    found = product(gradient(V), field)
    return found.with_functional(np.ones(found.output_dim))


@with_one_blas_thread
def write_value_proof(
    path: str | Path,
    network: Network,
    domain: Domain,
    found: Range,
    functional: npt.ArrayLike | None = None,
    shell: tuple[Network, Ends] | None = None,
    least: bool = False,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda cases: None,
    time_limit: float = math.inf,
) -> Written:
    """Write the proof of the largest (or the least) value of ``c . f`` over a domain.

    Parameters
    ----------
    path : path
        Another proof there is replaced at the end only, and any other file not at all.
    network : Network
        f; of a Lie derivative that of `lie_network`.
    domain : Domain
        A bounded one.
    found : Range
        What is known of the values.
    functional : array_like, shape (m,), optional
        c; not needed for a network with one output.
    shell : (Network, (float, float)), optional
        V and two numbers: only points with ``low <= V(x) <= high`` count.
    least : bool, optional
        Prove the least value, which is minus the largest one of ``-c . f``.
    stop, progress, time_limit : optional
        As of `lipyomo.proofs.write_proof`.

    Returns
    -------
    Written
        Its upper end is that of the proof; None if there was no time for it.

    Raises
    ------
    ProofError
        If there is no proof.
    OutputError
        If the file cannot or must not be written.
    """
    check_parts(network, domain)
    check_output(path, PROOF, ())
    row, at = chosen_functional(network, functional), found.witnesses[0 if least else 1]
    lower, upper = found.high
    if least:
        row, lower, upper = -row, -found.low[1], -found.low[0]
    if at is None or not math.isfinite(upper):
        raise ProofError("a range without a witness and a finite end proves nothing")
    if at.rest is not None:
        raise ProofError("proofs of values know no witness between float64 numbers")
    size = max(abs(lower), abs(upper), found.tolerance)
    upper = max(upper + PARAMS.aim * size, lower + 0.99 * found.tolerance)
    first: dict[str, Any] = {
        "format": PRODUCT_FORMAT,
        "question": "values",
        "network": _record(network),
        "domain": domain_record(domain),
        "input_norm": "linf",
        "output_norm": {"vertices": [row.tolist()]},
        "lower": lower - PARAMS.aim * size,
        "upper": float(np.nextafter(upper, np.inf)),
        "onnx": None,
        "witness": {"x": at.x.tolist()},
        "basis": None,
        "shell": None if shell is None else _shell(*shell),
    }
    clock = Clock(time_limit, stop)
    with written(path, PROOF) as stream, gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
        try:
            statement = read_statement(first)
            packed.write(line_of(first))
            cases = write_boxes(statement, clock, packed.write, progress)
        except (UnfinishedError, CheckError) as error:
            raise ProofError(f"{error}.  Remedy: more time, or a smaller domain") from None
    return Written(cases, first["upper"])


def _record(network: Network) -> list[dict[str, Any]]:
    check_units(network)
    return network_record(network)


def _shell(V: Network, ends: Ends) -> dict[str, Any]:
    """What a file says of a shell."""
    low, high = (end if math.isfinite(end) else None for end in ends)
    return {"network": _record(V), "low": low, "high": high}
