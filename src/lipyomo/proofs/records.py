"""The parts of a problem in proof files: layers, domains and norms as JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import Matrix, dense
from lipyomo.base.errors import ProofError
from lipyomo.networks.activations import Activation, Unbounded
from lipyomo.networks.layer import square_pairs
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem


def line_of(value: Any) -> bytes:
    """Encode a value as a line of a proof file."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def network_record(network: Network) -> list[dict[str, Any]]:
    """Encode the layers of a network; pairs of squares that form products are listed."""
    layers = network.layers
    found = [layer_record(layer) for layer in layers]
    for record, layer, after in zip(found, layers, layers[1:], strict=False):
        pairs = square_pairs(layer, after.dense_weight)
        if pairs:
            record["products"] = [list(pair) for pair in pairs]
    return found


def has_products(network: Network) -> bool:
    """Return whether any pair of a network's squares forms a product."""
    layers = network.layers
    return any(
        square_pairs(layer, after.dense_weight) for layer, after in pairwise(layers) if layer.curves
    )


def layer_record(layer: Layer) -> dict[str, Any]:
    """Encode a layer; units are written as the functions themselves, independent of the domain."""
    record: dict[str, Any] = {
        "inputs": layer.inputs,
        "weight": _rows(layer.weight),
        "bias": layer.bias.tolist(),
        "left": layer.left.tolist(),
        "right": layer.right.tolist(),
    }
    if layer.curves:
        record["curves"] = _curves(layer)
    for curve in layer.curves:
        if isinstance(curve.activation.true, Unbounded):  # no finite slopes
            for k in curve.units.tolist():
                record["left"][k] = record["right"][k] = 0.0
    return record


def _curves(layer: Layer) -> list[Any]:
    """Return names and units; curves that a domain has split at a pole are joined again."""
    found: list[tuple[Activation, list[int]]] = []
    for curve in layer.curves:
        true, units = curve.activation.true, curve.units.tolist()
        if found and found[-1][0] == true:
            found[-1] = true, sorted([*found[-1][1], *units])
        else:
            found.append((true, units))
    return [[true.name, units] for true, units in found]


def directions_record(directions: Matrix) -> dict[str, Any]:
    """Encode the matrix T of a problem's directions."""
    return {"columns": int(directions.shape[1]), "rows": _rows(directions)}


def _rows(given: Matrix) -> list[Any]:
    """Encode the rows of a matrix, without zeros if it is sparse."""
    matrix = sp.csr_array(given, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if 2 * matrix.nnz <= matrix.shape[0] * matrix.shape[1]:  # indices take as much as numbers
        parts = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        return [[matrix.indices[a:b].tolist(), matrix.data[a:b].tolist()] for a, b in parts]
    rows: list[Any] = dense(given).tolist()
    return rows


def _number(value: float) -> float | str:
    if np.isfinite(value):
        return float(value)
    return "inf" if value > 0 else "-inf"


def domain_record(domain: Domain) -> dict[str, Any]:
    """Encode a domain; a ball's bounding box is rounded outwards."""
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


def output_norm_record(problem: LipschitzProblem) -> Any:
    """Encode the output norm by its name, or by the vertices of its dual ball."""
    norm = problem.output_norm
    if norm.kind in ("l1", "l2", "linf", "cross"):
        return norm.name
    if norm.label is not None:
        return {"cross": norm.label}
    vertices = problem.dual_vertices
    if vertices is None:
        raise ProofError(f"the dual ball of {norm.name} has too many vertices for a proof")
    return {"vertices": vertices.tolist()}
