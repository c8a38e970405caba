"""Extraction of the part of a model for one output, as a graph to be lowered or a model to be run.

Sequences of tensors whose elements are only read individually, as in PyTorch's newer exporter for
split weights, become Split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import onnx
from onnx import helper

from lipyomo.base.errors import ImportRefused, NetworkError
from lipyomo.formats.onnx.arrange import (
    Fixed,
    Output,
    arranged,
    free_inputs,
    input_shape,
)
from lipyomo.formats.onnx.graph import (
    Array,
    Graph,
    plain_node,
    producers,
    reads,
    tensor_array,
)
from lipyomo.networks.naming import read_names


def select_graph(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> Graph:
    """Extract the part of a model on which one output depends.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, sequence of str, or None
        Tensors or nodes that are the outputs.
    fixed : mapping of str to array_like, or None
        Values of inputs.

    Returns
    -------
    Graph

    Raises
    ------
    ImportRefused
        If a tensor is read that no node computes, or the input or output is not unique.
    """
    columns = len(free_inputs(model.graph)) > 1
    model, output_name, value, parts, protos, wanted = arranged(model, output, fixed)
    graph = model.graph
    names = tuple(parts) if columns and set(parts.values()) == {1} else stored_names(model, parts)
    stored = {tensor.name: tensor for tensor in graph.initializer}
    versions = {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version
        for opset in model.opset_import
    }
    made_by = producers(graph)

    def constant(name: str) -> Array | None:
        """Return the stored value of a name, or that of a Constant node."""
        node = made_by.get(name)
        if node is not None and node.op_type == "Constant":
            values = [a.t for a in node.attribute if a.name == "value"]
            return tensor_array(values[0], name) if values else None
        return tensor_array(stored[name], name) if name in stored and node is None else None

    if versions.get("", 0) >= 13:
        protos = without_sequences(protos, constant, output_name)
    nodes = [plain_node(proto, versions) for proto in protos]
    for name in sorted(wanted):
        if name not in stored and name not in made_by and name != value.name:
            reader = next((node for node in nodes if name in reads(node.proto)), None)
            raise ImportRefused(
                f"the tensor '{name}' is read, but nothing makes it",
                node=reader.name if reader else None,
                op_type=reader.op_type if reader else None,
                remedy="the file is damaged or cut short: export the model again",
            )
    constants = {
        name: tensor_array(stored[name], name) for name in wanted & stored.keys() - made_by.keys()
    }
    return Graph(
        nodes, constants, value.name, input_shape(value), output_name, versions, parts, names
    )


NAMES = "lipyomo.input_names"
"""Key of the names of all inputs in a model's metadata: a JSON list."""


def stored_names(model: onnx.ModelProto, parts: Mapping[str, int]) -> tuple[str, ...] | None:
    """Return the stored names of the input's entries, if there is one input and they fit."""
    text = next((entry.value for entry in model.metadata_props if entry.key == NAMES), "")
    names: object = None
    with suppress(ValueError):
        names = json.loads(text)
    if len(parts) != 1 or not isinstance(names, list) or len(names) != sum(parts.values()):
        return None
    with suppress(NetworkError):
        return read_names(names, len(names))
    return None


def cut_model(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> onnx.ModelProto:
    """Return the part of a model for one output, in topological order, to be run elsewhere.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, sequence of str, or None
    fixed : mapping of str to array_like, or None

    Returns
    -------
    onnx.ModelProto
        Its only output is the chosen tensor, its first input the variable one; other inputs have
        initializers.
    """
    model, output_name, value, _, protos, wanted = arranged(model, output, fixed)
    graph = model.graph
    cut = onnx.ModelProto()
    cut.ir_version = model.ir_version
    cut.opset_import.extend(model.opset_import)
    cut.functions.extend(model.functions)
    cut.graph.name = graph.name or "cut"
    initializers = [tensor for tensor in graph.initializer if tensor.name in wanted]
    stored = {tensor.name for tensor in initializers}
    cut.graph.input.append(value)
    cut.graph.input.extend(v for v in graph.input if v.name in stored)
    cut.graph.initializer.extend(initializers)
    cut.graph.node.extend(protos)
    unknown = onnx.ValueInfoProto(name=output_name)
    cut.graph.output.append(next((v for v in graph.output if v.name == output_name), unknown))
    return cut


Constant = Callable[[str], "Array | None"]
"""Returns the value of a stored tensor by name."""


def without_sequences(
    nodes: Sequence[onnx.NodeProto], constant: Constant, output: str
) -> list[onnx.NodeProto]:
    """Replace SplitToSequence and the SequenceAt that read it by Split and Identity.

    Nodes that cannot be replaced are unchanged.

    Parameters
    ----------
    nodes : sequence of NodeProto
        In topological order, of operator set 13 or later.
    constant : callable
    output : str
        The output of the graph.
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
    """Return the number of pieces of a node, if its list of sizes is constant."""
    sizes = constant(node.input[1]) if len(node.input) > 1 else None
    return None if sizes is None or sizes.ndim != 1 else int(sizes.size)


def _place(node: onnx.NodeProto, constant: Constant) -> int | None:
    """Return the position of a sequence that a node reads, if it is constant."""
    place = constant(node.input[1]) if node.op_type == "SequenceAt" else None
    return None if place is None or place.size != 1 else int(place.reshape(()))
