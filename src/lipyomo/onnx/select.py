"""What one output of a model needs: as a graph to be lowered, and as a model to be run."""

from __future__ import annotations

import math

import onnx

from lipyomo.errors import ImportRefused
from lipyomo.onnx.arrange import Fixed, Output, arranged
from lipyomo.onnx.choose import choose_input, input_shape
from lipyomo.onnx.graph import Graph, ordered, plain_node, producers, reads, tensor_array


def select_graph(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> Graph:
    """Cut out of a model what one output needs.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, sequence of str, or None
        Tensors or nodes to cut at.
    fixed : mapping of str to array_like, or None
        Values of inputs.

    Returns
    -------
    Graph

    Raises
    ------
    ImportRefused
        If a tensor is read that nothing makes, or there is no single input or output.
    """
    model, output_name, parts = arranged(model, output, fixed)
    graph = model.graph
    protos, wanted = ordered(graph, output_name)
    value = choose_input(graph, wanted)
    parts = parts or {value.name: math.prod(input_shape(value))}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    versions = {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version
        for opset in model.opset_import
    }
    nodes = [plain_node(proto, versions) for proto in protos]
    made_by = producers(graph)
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
    return Graph(nodes, constants, value.name, input_shape(value), output_name, versions, parts)


def cut_model(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> onnx.ModelProto:
    """A model that holds only what one output needs, its nodes in order, to be run elsewhere.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, sequence of str, or None
    fixed : mapping of str to array_like, or None

    Returns
    -------
    onnx.ModelProto
        Its only output is the chosen tensor, its first input the one that varies; further inputs
        have stored values.
    """
    model, output_name, _ = arranged(model, output, fixed)
    graph = model.graph
    protos, wanted = ordered(graph, output_name)
    value = choose_input(graph, wanted)
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
