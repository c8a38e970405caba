"""Whether a proof is about the network in an ONNX file.

Plain chains (Flatten, Gemm, MatMul, Add, Relu, LeakyRelu) are read here, and compared weight by
weight with the network of the proof.  For other graphs the step from the file to the chain is taken
on trust, and said so: the digest of the chain is compared with what another program made of the
file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import Layer, digest_of
from lipyomo_check.statement import Statement

MOST_BYTES = 1 << 30


def compare_network(statement: Statement, path: Path | None, digest: str | None) -> str:
    """Compare; a sentence says how far.

    Raises
    ------
    ProofError
        If the proof is about another network.
    """
    if path is None and digest is None:
        return "trusted      that the network of the proof is yours: no ONNX file was given"
    if path is None:
        if digest != statement.digest:
            raise ProofError("the proof is about another network")
        return "trusted      that lipyomo reads the ONNX files rightly: they give this network"
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
        return "trusted      that lipyomo reads the ONNX file rightly: it gives the proof's network"
    file = hashlib.sha256(data).hexdigest()
    if digest is None and chain is None and statement.onnx == file:
        return "trusted      that the proof reads the ONNX file, which is no plain chain, rightly"
    raise ProofError(f"the proof is about another network than {path.name}")


def compare_shell(statement: Statement, digest: str | None) -> str:
    """Compare the function whose values make a shell; a sentence says how far.

    Raises
    ------
    ProofError
        If it is another one.
    """
    if statement.shell is None:
        return ""
    if digest is None:
        return "trusted      that V, whose values make the shell, is yours"
    if digest != digest_of(statement.shell.layers):
        raise ProofError("the shell of the proof is that of another function")
    return "trusted      that lipyomo reads the file of V rightly: it gives that of the shell"


def _same(layers: list[Layer], chain: list[Made]) -> bool:
    """Return whether two chains are the same, number by number, of two-slope units only."""
    if any(layer.curves for layer in layers):
        return False
    parts = [(layer.rows, layer.offset, layer.left, layer.right) for layer in layers]
    read = []
    for made in chain:
        n, slope = len(made.rows), 1.0 if made.slope is None else made.slope
        read.append((made.rows, made.bias or [0.0] * n, [slope] * n, [1.0] * n))
    return parts == read


@dataclass(frozen=True)
class Made:
    """A layer that is being read: what of its bias and its left slope is not known yet is None."""

    rows: list[list[float]]
    bias: list[float] | None = None
    slope: float | None = None


def _plain_chain(data: bytes) -> list[Made] | None:
    """Return layers of a plain chain; None if the graph is anything else."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(data).graph
    except DecodeError:
        raise ProofError("the network is no ONNX file") from None
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    inputs = [v for v in graph.input if v.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1 or not _is_row(inputs[0], graph.node):
        return None
    current = inputs[0].name
    layers: list[Made] = []
    for node in graph.node:
        options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type == "Constant" and "value" in options:
            constants[node.output[0]] = onnx.numpy_helper.to_array(options["value"])
            continue
        given = [constants.get(name) for name in node.input if name != current]
        if len(node.input) - len(given) != 1 or any(array is None for array in given):
            return None
        if not _apply(node, options, given, layers, node.input[0] == current):
            return None
        current = node.output[0]
    done = current == graph.output[0].name and layers and layers[-1].slope is None
    return layers if done else None


def _is_row(value: Any, nodes: Any) -> bool:
    """Return whether a graph's input is one vector, or flattened first, and not a batch."""
    shape = [axis.dim_value for axis in value.type.tensor_type.shape.dim]
    flat = bool(nodes) and nodes[0].op_type == "Flatten"
    return len(shape) == 1 or (len(shape) > 1 and shape[0] < 2 and (flat or len(shape) == 2))


def _apply(
    node: Any, options: dict[str, Any], given: list[Any], layers: list[Made], first: bool
) -> bool:
    """Add one operator to the layers; False if it is not of a plain chain."""
    kind, last = node.op_type, layers[-1] if layers else None
    affine = last is None or last.slope is not None  # what is expected next
    if kind == "Flatten":
        return last is None and options.get("axis", 1) == 1
    if kind in ("Relu", "LeakyRelu") and last is not None and not affine:
        # the operator's attribute is a float32, as stored
        slope = 0.0 if kind == "Relu" else float(options.get("alpha", 0.01))
        layers[-1] = replace(last, slope=slope)
        return True
    if kind == "Add" and last is not None and not affine and last.bias is None:
        bias = _floats(given[0])
        layers[-1] = replace(last, bias=bias)
        return given[0].shape[-1:] == (len(last.rows),) and len(bias) == len(last.rows)
    if kind not in ("Gemm", "MatMul") or not affine or not first or given[0].ndim != 2:
        return False
    plain = options.get("alpha", 1.0) == 1.0 and options.get("beta", 1.0) == 1.0
    weight = given[0] if options.get("transB", 0) else given[0].T
    made = Made([_floats(row) for row in weight], _floats(given[1]) if len(given) > 1 else None)
    layers.append(made)
    fits = made.bias is None or len(made.bias) == len(weight)
    return plain and not options.get("transA", 0) and fits


def _floats(array: Any) -> list[float]:
    """Return the numbers of an array."""
    return [float(v) for v in array.reshape(-1).tolist()]
