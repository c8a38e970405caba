"""Proofs of ranges of a network's values or of a Lie derivative, on a domain or a shell in it."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProofError
from lipyomo.base.system.outputs import PROOF, check_output, written
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.derivatives.gradients import gradient
from lipyomo.networks.derivatives.products import product
from lipyomo.networks.network import Network
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.domains import Domain
from lipyomo.problems.ranges import Range, check_parts, chosen_functional
from lipyomo.proofs.boxes import write_boxes
from lipyomo.proofs.pairs import UnfinishedError
from lipyomo.proofs.params import PARAMS
from lipyomo.proofs.records import domain_record, line_of, network_record
from lipyomo.proofs.writing import Progress, Written, check_units, write_open
from lipyomo_check.errors import ProofError as CheckError
from lipyomo_check.formats import Edition
from lipyomo_check.smooth.witness import check_smooth_witness
from lipyomo_check.statement import read_statement

Ends = tuple[float, float]

SIDES = {"both": (1, 0), "high": (1,), "low": (0,)}
"""The ends of a range that a proof covers: 1 is the largest value, 0 the least."""


def lie_network(V: Network, field: Network) -> Network:
    """Return ``grad V(x) . g(x)`` as a network with one output.

    Raises
    ------
    NetworkError
        If V is not smooth, or the sizes of V and the field do not match.
    """
    found = product(gradient(V), field)
    return found.with_functional(np.ones(found.output_dim))


@with_one_blas_thread
def write_value_proof(
    path: str | Path,
    network: Network,
    domain: Domain,
    found: Range | Sequence[Range],
    functional: npt.ArrayLike | None = None,
    shell: tuple[Network, Ends] | None = None,
    ends: str = "both",
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda cases: None,
    time_limit: float = math.inf,
) -> Written:
    """Write the proof of the largest and the least value of ``c . f`` over a domain.

    Parameters
    ----------
    path : path
        An existing proof is replaced only once the new one is complete; any other file is refused.
    network : Network
        f; for a Lie derivative, that of `lie_network`.
    domain : Domain
        A bounded domain.
    found : Range, or several
        The known range of the values, for each functional.
    functional : array_like, shape (m,) or (k, m), optional
        c, or several; not needed for a network with one output.
    shell : (Network, (float, float)), optional
        V and two numbers: the domain is restricted to ``low <= V(x) <= high``.
    ends : {'both', 'high', 'low'}, optional
        Whether to prove the largest value only, or the least one only.
    stop, progress, time_limit : optional
        See `lipyomo.proofs.write_proof`.

    Returns
    -------
    Written
        Its `upper` is the largest of the proved upper bounds: of ``c . f``, and of ``-c . f`` for
        the least value.  It is None if there was no time for the tree; then the file only proves
        the attained values.

    Raises
    ------
    ProofError
        If there is no proof.
    OutputError
        If the file cannot or must not be written.
    """
    check_parts(network, domain)
    clock = Clock(real_number(time_limit, "the time limit", ProofError), stop)
    check_output(path, PROOF, ())
    if ends not in SIDES:
        raise ProofError(f"the ends are one of {', '.join(SIDES)}, not {ends!r}")
    ranges = [found] if isinstance(found, Range) else list(found)
    given = [functional] if isinstance(found, Range) else functional
    rows = [chosen_functional(network, row) for row in _rows(given, len(ranges))]
    pairs = zip(rows, ranges, strict=True)
    claims = [_claim(network, *pair, side) for pair in pairs for side in SIDES[ends]]
    first: dict[str, Any] = {
        "format": Edition.PRODUCTS.value,
        "question": "values",
        "network": _record(network),
        "domain": domain_record(domain),
        "input_norm": "linf",
        "output_norm": {"vertices": [claim.row.tolist() for claim in claims]},
        "lower": [claim.lower for claim in claims],
        "upper": [claim.upper for claim in claims],
        "onnx": None,
        "witness": {"points": [claim.x.tolist() for claim in claims]},
        "basis": None,
        "shell": None if shell is None else _shell(*shell),
    }
    try:
        statement = read_statement(first)
        check_smooth_witness(statement, first["witness"])
        with written(path, PROOF) as stream:
            try:
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                    packed.write(line_of(first))
                    cases = write_boxes(statement, clock, packed.write, progress)
                return Written(cases, statement.upper)
            except UnfinishedError as error:
                basis = f"boxes: {error}"
                write_open(stream, first, basis)
                return Written(0, None, basis)
    except CheckError as error:
        raise ProofError(f"there is no proof of these values: {error}") from None


def _rows(given: Any, count: int) -> list[Any]:
    """Return the functionals of `count` ranges.

    Raises
    ------
    ProofError
        If their number differs.
    """
    rows = [None] * count if given is None else list(given)
    if not count or len(rows) != count:
        raise ProofError(f"{count} ranges, and {len(rows)} functionals")
    return rows


@dataclass(frozen=True)
class _Claim:
    """The claim that the largest value of ``row . f`` is in [lower, upper]; x attains `lower`."""

    row: FloatArray
    lower: float
    upper: float
    x: FloatArray


def _claim(network: Network, row: FloatArray, found: Range, side: int) -> _Claim:
    """Make the claim for one end of a range, with a margin for the checker's arithmetic.

    Raises
    ------
    ProofError
        If the end has no witness or no finite bound.
    """
    at = found.witnesses[side]
    lower, upper = found.high
    if not side:
        row, lower, upper = -row + 0.0, -found.low[1], -found.low[0]
    if at is None or not math.isfinite(upper):
        raise ProofError("a range without a witness and a finite end proves nothing")
    if at.rest is not None:  # files only have float64 points: use the nearest one
        lower = min(lower, value_at(network, row, at.x)[0])
    size = max(abs(lower), abs(upper), found.tolerance)
    upper = max(upper + PARAMS.aim * size, lower + 0.99 * found.tolerance)
    return _Claim(row, lower - PARAMS.aim * size, float(np.nextafter(upper, np.inf)), at.x)


def _record(network: Network) -> list[dict[str, Any]]:
    check_units(network)
    return network_record(network)


def _shell(V: Network, ends: Ends) -> dict[str, Any]:
    """Encode a shell for the file."""
    low, high = (end if math.isfinite(end) else None for end in ends)
    return {"network": _record(V), "low": low, "high": high}
