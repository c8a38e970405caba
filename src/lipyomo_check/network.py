"""Whether a proof is about the network in an ONNX file.

Plain chains (Flatten, Gemm, MatMul, Add, Relu, LeakyRelu) are read here, and compared weight by
weight with the network of the proof.  For other graphs the step from the file to the chain is taken
on trust, and said so: the digest of the chain is compared with what another program made of the
file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.statement import Layer, Statement

MOST_BYTES = 1 << 30


def compare_network(statement: Statement, path: Path | None, digest: str | None) -> str:
    """Compare; a sentence says how far.

    Raises
    ------
    ProofError
        If the proof is about another network.
    """
    if path is None:
        return "trusted      that the network of the proof is yours: no ONNX file was given"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ProofError(f"{path} is too large")
        data = path.read_bytes()
    except OSError as error:
        raise ProofError(f"{path} cannot be read: {error.strerror}") from None
    chain = _plain_chain(data)
    if chain is not None and _same(statement.layers, chain):
        return "checked      the network is that of the ONNX file, weight by weight"
    if digest is not None and digest == statement.digest:
        return (
            "trusted      that lipyomo reads the ONNX file rightly: it gives the network of the "
            "proof (the graph is not a plain chain, or was simplified)"
        )
    file = hashlib.sha256(data).hexdigest()
    if digest is None and chain is None and statement.onnx == file:
        return (
            "trusted      that the network of the proof is that of the ONNX file: the file is the "
            "one that the proof names, but not a plain chain"
        )
    raise ProofError(f"the proof is about another network than {path.name}")


def _same(layers: list[Layer], chain: list[dict[str, Any]]) -> bool:
    """Whether two chains are the same, number by number."""
    if len(layers) != len(chain):
        return False
    return all(
        layer.rows == made["weight"]
        and layer.offset == made["bias"]
        and layer.left == made["left"]
        and layer.right == made["right"]
        for layer, made in zip(layers, chain, strict=True)
    )


def _plain_chain(data: bytes) -> list[dict[str, Any]] | None:
    """Layers of a plain chain; None if the graph is anything else."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(data).graph
    except DecodeError:
        raise ProofError("the network is no ONNX file") from None
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    inputs = [v.name for v in graph.input if v.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        return None
    current = inputs[0]
    layers: list[dict[str, Any]] = []
    for node in graph.node:
        options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant" and "value" in options:
            constants[node.output[0]] = onnx.numpy_helper.to_array(options["value"])
            continue
        others = [name for name in node.input if name != current]
        if len(node.input) - len(others) != 1 or any(name not in constants for name in others):
            return None
        given = [constants[name] for name in others]
        if not _apply(node, options, given, layers, node.input[0] == current):
            return None
        current = node.output[0]
    if current != graph.output[0].name or not layers:
        return None
    if layers[-1]["units"]:
        return None
    return layers


def _apply(
    node: Any, options: dict[str, Any], given: list[Any], layers: list[Any], first: bool
) -> bool:
    """Add one operator to the layers; False if it is not of a plain chain."""
    kind = node.op_type
    if kind == "Flatten":
        return not layers and options.get("axis", 1) == 1
    if kind in ("Relu", "LeakyRelu"):
        if not layers or layers[-1]["units"]:
            return False
        # the operator's attribute is a float32, as stored
        slope = 0.0 if kind == "Relu" else float(options.get("alpha", 0.01))
        layers[-1]["left"] = [slope] * len(layers[-1]["bias"])
        layers[-1]["units"] = True
        return True
    if kind == "Gemm":
        plain = options.get("alpha", 1.0) == 1.0 and options.get("beta", 1.0) == 1.0
        if not first or not plain or options.get("transA", 0) or given[0].ndim != 2:
            return False
        weight = given[0] if options.get("transB", 0) else given[0].T
        return _affine(layers, weight, given[1] if len(given) > 1 else None)
    if kind == "MatMul":
        return bool(first and given[0].ndim == 2 and _affine(layers, given[0].T, None))
    if kind == "Add":
        if not layers or layers[-1]["units"] or layers[-1]["biased"]:
            return False
        bias = given[0].astype(float).reshape(-1)
        if bias.size != len(layers[-1]["bias"]):
            return False
        layers[-1]["bias"], layers[-1]["biased"] = [float(b) for b in bias], True
        return True
    return False


def _affine(layers: list[Any], weight: Any, bias: Any) -> bool:
    """Add an affine layer."""
    if layers and not layers[-1]["units"]:
        return False
    rows = [[float(w) for w in row] for row in weight.tolist()]
    values = [0.0] * len(rows)
    if bias is not None:
        flat = bias.reshape(-1).tolist()
        if len(flat) != len(rows):
            return False
        values = [float(b) for b in flat]
    layers.append(
        {
            "weight": rows,
            "bias": values,
            "left": [1.0] * len(rows),
            "right": [1.0] * len(rows),
            "units": False,
            "biased": bias is not None,
        }
    )
    return True
