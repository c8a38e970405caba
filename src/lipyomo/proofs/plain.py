"""Domains and output norms as plain data for JSON, and back, without any rounding.

Python writes float64 numbers with as many digits as it takes to read the same number back; the
infinities, which JSON lacks, are written as strings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.domains import AllSpace, Box, Domain, NormBall, Polytope
from lipyomo.errors import ProofError
from lipyomo.network import FloatArray
from lipyomo.norms import LinearOutput, OutputNorm, parse_output_norm


def number(value: float) -> float | str:
    """A number that JSON can hold."""
    if math.isfinite(value):
        return float(value)
    return "inf" if value > 0 else "-inf"


def numbers(values: FloatArray) -> list[float | str]:
    """A vector as plain numbers."""
    return [number(value) for value in values.tolist()]


def field(data: object, key: str) -> Any:
    """``data[key]``.

    Raises
    ------
    ProofError
        If there is no such entry.
    """
    if not isinstance(data, dict) or key not in data:
        raise ProofError(f"the proof has no entry '{key}'.  Remedy: write it again")
    return data[key]


def read_number(data: object, what: str) -> float:
    """Read what `number` wrote."""
    return float(read_vector([data], what)[0])


def read_vector(data: object, what: str) -> FloatArray:
    """Read what `numbers` wrote.

    Raises
    ------
    ProofError
        If it is not a list of numbers.
    """
    if not isinstance(data, list):
        raise ProofError(f"the proof's {what} is not a list of numbers")
    try:
        found = np.array([float(value) for value in data], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProofError(f"the proof's {what} is not a list of numbers ({error})") from None
    if np.isnan(found).any():
        raise ProofError(f"the proof's {what} holds NaN")
    return found


def domain_data(domain: Domain) -> dict[str, Any]:
    """A domain as plain data."""
    if isinstance(domain, AllSpace):
        return {"kind": "all", "dimension": domain.dimension}
    if isinstance(domain, NormBall):
        low, high = domain.clip
        return {
            "kind": "ball",
            "norm": domain.norm,
            "center": numbers(domain.point),
            "radius": domain.radius,
            "lower": numbers(low),
            "upper": numbers(high),
        }
    data: dict[str, Any] = {
        "kind": "box",
        "lower": numbers(domain.lower),
        "upper": numbers(domain.upper),
    }
    rows = domain.rows
    if rows.count:
        entries = rows.A.tocoo()
        data["kind"] = "polytope"
        data["rows"] = {
            "row": entries.row.tolist(),
            "column": entries.col.tolist(),
            "value": entries.data.tolist(),
            "b": numbers(rows.b),
        }
    return data


def read_domain(data: object) -> Domain:
    """Read what `domain_data` wrote."""
    kind = field(data, "kind")
    if kind == "all":
        return AllSpace(int(read_number(field(data, "dimension"), "dimension")))
    lower = read_vector(field(data, "lower"), "lower bound")
    upper = read_vector(field(data, "upper"), "upper bound")
    if kind == "box":
        return Box(lower, upper)
    if kind == "ball":
        center = read_vector(field(data, "center"), "center")
        radius = read_number(field(data, "radius"), "radius")
        return NormBall(center, radius, str(field(data, "norm")), (lower, upper))
    if kind == "polytope":
        rows = field(data, "rows")
        b = read_vector(field(rows, "b"), "right-hand side")
        entries = read_vector(field(rows, "value"), "matrix")
        places = tuple(
            read_vector(field(rows, axis), "matrix").astype(np.intp) for axis in ("row", "column")
        )
        matrix = sp.coo_array((entries, places), shape=(b.size, lower.size))
        return Polytope(matrix, b, lower, upper)
    raise ProofError(f"the proof's domain is of unknown kind '{kind}'")


def norm_data(norm: OutputNorm, m: int) -> dict[str, Any]:
    """An output norm as plain data: its name, and its vertices if it is the user's own."""
    if not isinstance(norm, LinearOutput):
        return {"name": norm.name}
    return {"name": norm.name, "vertices": [numbers(row) for row in norm.vertices(m)]}


def read_norm(data: object) -> OutputNorm:
    """Read what `norm_data` wrote."""
    name = str(field(data, "name"))
    if not isinstance(data, dict) or "vertices" not in data:
        return parse_output_norm(name)
    rows = [read_vector(row, "vertex") for row in data["vertices"]]
    return LinearOutput(vertices=np.array(rows), name=name)
