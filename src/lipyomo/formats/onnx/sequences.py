"""Sequences of tensors that are only made to take pieces out of them: Split instead.

PyTorch's newer exporter splits weights this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper

from lipyomo.formats.onnx.graph import Array

Constant = Callable[[str], "Array | None"]
"""The value of a tensor that is stored, by name."""


def without_sequences(
    nodes: Sequence[onnx.NodeProto], constant: Constant, output: str
) -> list[onnx.NodeProto]:
    """The nodes, with Split and Identity for SplitToSequence and the SequenceAt that read it.

    What cannot be rewritten stays.

    Parameters
    ----------
    nodes : sequence of NodeProto
        In order, of an operator set from 13 on.
    constant : callable
    output : str
        The tensor that is asked for.
    """
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    pieces = {
        node.output[0]: sizes
        for node in nodes
        if node.op_type == "SplitToSequence"
        and node.output[0] != output
        and (sizes := _sizes(node, constant)) is not None
        and all(_place(one, constant) is not None for one in readers.get(node.output[0], []))
    }
    found = []
    for node in nodes:
        if node.op_type == "SplitToSequence" and node.output[0] in pieces:
            made = [f"{node.output[0]}/{k}" for k in range(pieces[node.output[0]])]
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            found.append(helper.make_node("Split", node.input, made, node.name, axis=axis))
        elif node.op_type == "SequenceAt" and node.input[0] in pieces:
            place = _place(node, constant) or 0
            piece = f"{node.input[0]}/{place % pieces[node.input[0]]}"
            found.append(helper.make_node("Identity", [piece], node.output, node.name))
        else:
            found.append(node)
    return found


def _sizes(node: onnx.NodeProto, constant: Constant) -> int | None:
    """How many pieces a node makes, if its list of sizes is stored."""
    sizes = constant(node.input[1]) if len(node.input) > 1 else None
    return None if sizes is None or sizes.ndim != 1 else int(sizes.size)


def _place(node: onnx.NodeProto, constant: Constant) -> int | None:
    """Which piece of a sequence a node takes, if that is stored."""
    place = constant(node.input[1]) if node.op_type == "SequenceAt" else None
    return None if place is None or place.size != 1 else int(place.reshape(()))
