"""Proof files: everything that is needed to check a lower bound again, on paper if need be.

A proof names the network by a digest of its weights and states the problem, the interval, and the
witness.  Verification trusts none of it: the point must lie strictly inside the domain, every unit
must have the sign of the pattern, the functional must lie in the dual ball, and the exact norm of
the gradient must reach the lower end, all in rational arithmetic.  The upper end is checked against
the bound ladder; where that is not enough it is reported as stated, not as proved.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.errors import ProofError
from lipyomo.network import Network, Pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.dual import in_dual_ball
from lipyomo.proofs.plain import (
    domain_data,
    field,
    norm_data,
    number,
    numbers,
    read_domain,
    read_norm,
    read_number,
    read_vector,
)
from lipyomo.proofs.replay import replay
from lipyomo.result import Result, Witness

FORMAT = "lipyomo proof 1"


@dataclass(frozen=True)
class Check:
    """One statement of a proof.

    Attributes
    ----------
    statement : str
    holds : bool or None
        None if it could not be decided.
    """

    statement: str
    holds: bool | None


@dataclass(frozen=True)
class Verdict:
    """What came of verifying a proof.

    Attributes
    ----------
    checks : tuple of Check
    lower, upper : float
        The interval that the proof states.
    """

    checks: tuple[Check, ...]
    lower: float
    upper: float

    @property
    def lower_holds(self) -> bool:
        """Whether the lower end is proved: no check failed and none of its own is open."""
        return all(check.holds for check in self.checks[:-1])

    @property
    def upper_holds(self) -> bool | None:
        """Whether the upper end is proved; None if it rests on the method's word."""
        return self.checks[-1].holds


def network_digest(network: Network) -> str:
    """SHA-256 of a network's weights, biases and slopes; sparse and dense weights give the same."""
    digest = hashlib.sha256()
    for layer in network.layers:
        entries = sp.csr_array(layer.weight).copy()
        entries.sum_duplicates()
        entries.eliminate_zeros()
        entries.sort_indices()
        digest.update(np.array(entries.shape, dtype="<i8").tobytes())
        for index in (entries.indptr, entries.indices):
            digest.update(index.astype("<i8").tobytes())
        for values in (entries.data, layer.bias, layer.left, layer.right):
            digest.update((values + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def proof_of(problem: LipschitzProblem, result: Result) -> dict[str, Any]:
    """The proof of a result, as plain data.

    The lower end is rounded down to a float64 number that exact arithmetic confirms.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem.
    result : Result

    Raises
    ------
    ProofError
        If the result has no witness, or exact arithmetic does not confirm it.
    """
    witness = result.witness
    if witness is None:
        raise ProofError("a result without a witness proves nothing from below")
    exact = replay(problem, witness)
    if not exact.holds:
        raise ProofError("exact arithmetic does not confirm the witness")
    lower = min(result.lower, exact.below)
    data = witness.to_dict()
    return {
        "format": FORMAT,
        "network": {
            "name": problem.network.name,
            "sizes": list(problem.network.sizes),
            "sha256": network_digest(problem.network),
        },
        "problem": {
            "domain": domain_data(problem.domain),
            "input_norm": problem.input_norm,
            "output_norm": norm_data(problem.output_norm, problem.network.output_dim),
        },
        "interval": {"lower": lower, "upper": number(result.upper)},
        "method": {"name": result.method, "status": str(result.status), "solver": result.solver},
        "witness": {
            "x": numbers(witness.x),
            "functional": numbers(witness.functional),
            "pattern": data["pattern"],
            "square": str(exact.square),
        },
    }


def write_proof(path: str | Path, problem: LipschitzProblem, result: Result) -> None:
    """Write the proof of a result to a JSON file.

    Raises
    ------
    ProofError
        If there is none, or the file cannot be written.
    """
    text = json.dumps(proof_of(problem, result), indent=1, allow_nan=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ProofError(f"the proof cannot be written to {path}: {error.strerror}") from None


def read_proof(path: str | Path) -> dict[str, Any]:
    """Read a proof file.

    Raises
    ------
    ProofError
        If it is missing or not a proof.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ProofError(f"the proof {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ProofError(f"{path} is not a JSON file ({error})") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ProofError(f"{path} is not a proof of the format '{FORMAT}'")
    return data


def verify_proof(proof: dict[str, Any], network: Network) -> Verdict:
    """Check a proof against a network.

    Parameters
    ----------
    proof : dict
        As `read_proof` returns it.
    network : Network
        The network that it should be about.

    Returns
    -------
    Verdict
        The last check is that of the upper end.

    Raises
    ------
    ProofError
        If an entry is missing or makes no sense.
    """
    stated = field(proof, "network")
    same = field(stated, "sha256") == network_digest(network)
    described = field(proof, "problem")
    problem = LipschitzProblem(
        network,
        read_domain(field(described, "domain")),
        str(field(described, "input_norm")),
        read_norm(field(described, "output_norm")),
    )
    interval = field(proof, "interval")
    lower = read_number(field(interval, "lower"), "lower end")
    upper = read_number(field(interval, "upper"), "upper end")
    witness = _witness(field(proof, "witness"), network)
    exact = replay(problem, witness)
    reached = math.isfinite(lower) and Fraction(max(lower, 0.0)) ** 2 <= exact.square
    ball = in_dual_ball(problem.output_norm, witness.functional)
    checks = (
        Check("the network has the stated weights", same),
        Check("the point lies strictly inside the domain", exact.interior),
        Check("every unit has the sign of the pattern there", exact.pattern),
        Check("the functional lies in the dual ball of the output norm", ball),
        Check(f"the gradient's norm is at least {lower!r}", reached),
        Check(f"the constant is at most {upper!r}", _upper_holds(problem, lower, upper)),
    )
    return Verdict(checks, lower, upper)


def _witness(data: object, network: Network) -> Witness:
    x = read_vector(field(data, "x"), "point")
    functional = read_vector(field(data, "functional"), "functional")
    if x.size != network.input_dim or functional.size != network.output_dim:
        raise ProofError("the proof's witness does not fit the network's inputs and outputs")
    if not (np.isfinite(x).all() and np.isfinite(functional).all()):
        raise ProofError("the proof's witness holds infinite numbers")
    pattern = _pattern(field(data, "pattern"), network)
    return Witness(x, np.zeros(x.size), functional, pattern, 0.0, 0.0)


def _pattern(data: object, network: Network) -> Pattern:
    widths = [layer.units for layer in network.hidden]
    if (
        not isinstance(data, list)
        or [len(str(row)) for row in data] != widths
        or any(set(str(row)) - {"0", "1"} for row in data)
    ):
        raise ProofError(
            f"the proof's pattern is not one string of {widths} zeros and ones a layer"
        )
    return tuple(np.array([digit == "1" for digit in row], dtype=bool) for row in data)


def _upper_holds(problem: LipschitzProblem, lower: float, upper: float) -> bool | None:
    """Whether the bound ladder confirms the upper end; False if it lies below the lower end."""
    from lipyomo.bounds import preactivation_bounds
    from lipyomo.methods.interval import gradient_bound

    if upper < lower:
        return False
    if upper == math.inf:
        return True
    small = problem.reduced.problem
    bounds = preactivation_bounds(small.network, small.domain, rung="auto")
    return True if gradient_bound(small, bounds) <= upper else None
