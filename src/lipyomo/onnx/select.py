"""Choose the input and the output of a graph; refuse what has several."""

from __future__ import annotations

import difflib
import shlex
import warnings

import onnx

from lipyomo.errors import ImportRefused
from lipyomo.onnx.graph import (
    REAL_TYPES,
    Graph,
    known_tensors,
    ordered,
    plain_node,
    producers,
    reads,
    tensor_array,
)


def choose_output(graph: onnx.GraphProto, output: str | None) -> str:
    """The tensor that is the network's output.

    Parameters
    ----------
    graph : onnx.GraphProto
    output : str, optional
        A tensor, or a node (its first output is meant).  Left out: the one output of the graph,
        or the one real output
        that no other output is computed from.

    Raises
    ------
    ImportRefused
        If there is no such tensor or node, or the graph has several outputs.
    """
    if output is not None:
        if not output:
            raise ImportRefused(
                "the name of the tensor or node to cut at is empty",
                remedy="give a name, or leave it out",
            )
        tensors = set(known_tensors(graph))
        if output in tensors:
            return output
        for node in graph.node:
            if node.name == output and node.output:
                return str(node.output[0])
        names: list[str] = [*tensors, *(node.name for node in graph.node if node.name)]
        close = difflib.get_close_matches(output, names, n=3) or [o.name for o in graph.output]
        raise ImportRefused(
            f"there is no tensor or node '{output}' to cut at",
            remedy="did you mean " + " or ".join(f"'{name}'" for name in close) + "?",
        )
    outputs = list({value.name: value for value in graph.output}.values())
    if len(outputs) > 1:  # scikit-learn's converter puts whole labels beside the numbers
        outputs = [value for value in outputs if _is_real(value)] or outputs
    names = [str(value.name) for value in outputs]
    if len(names) > 1:  # others may be on the way to the last one
        read = {name: ordered(graph, name)[1] - {name} for name in names}
        final = [name for name in names if not any(name in read[other] for other in names)]
        if len(final) != 1:
            raise ImportRefused(
                f"the model has {len(names)} outputs: " + ", ".join(f"'{name}'" for name in names),
                remedy=f"choose one, for example --output {shlex.quote(names[0])}; for all of them "
                "as one function, join them with a Concat before exporting",
            )
        names = final
    return names[0]


class SeveralOutputs(UserWarning):
    """A model has several outputs, of which one was taken."""


def _tell_choice(graph: onnx.GraphProto, chosen: str) -> None:
    """Warn that a model has other outputs."""
    others = [value.name for value in graph.output if value.name != chosen and _is_real(value)]
    if others:
        listed = ", ".join(f"'{name}'" for name in others)
        warnings.warn(
            f"the model also has the output{'s' * (len(others) > 1)} {listed}; '{chosen}' was "
            "taken, choose another with --output; for all of them as one function, join them with "
            "a Concat before exporting",
            SeveralOutputs,
            stacklevel=2,
        )


def _is_real(value: onnx.ValueInfoProto) -> bool:
    """Whether an output holds real numbers, or does not say what it holds."""
    kind = value.type.tensor_type.elem_type
    return not value.type.HasField("tensor_type") or kind in REAL_TYPES | {0}


def input_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Shape of the input, with a free batch dimension (the first) set to one."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type not in REAL_TYPES:
        names = dict(onnx.TensorProto.DataType.items())
        kind = next((k for k, v in names.items() if v == tensor.elem_type), "unknown").lower()
        raise ImportRefused(
            f"the input '{value.name}' holds {kind} values, a Lipschitz constant needs real ones",
            remedy="export the model with a float or double input",
        )
    if not tensor.HasField("shape"):
        raise ImportRefused(
            f"the input '{value.name}' has no shape", remedy="export the model with a fixed shape"
        )
    shape = []
    for axis, dim in enumerate(tensor.shape.dim):
        size = dim.dim_value if dim.HasField("dim_value") else 0
        if size < 1 and (axis > 0 or len(tensor.shape.dim) == 1):
            name = dim.dim_param or "?"
            raise ImportRefused(
                f"axis {axis} of the input '{value.name}' has no fixed size ('{name}'); only the "
                "first of several axes, the batch, may be free",
                remedy="export the model with a fixed input shape",
            )
        shape.append(size if size >= 1 else 1)
    return tuple(shape)


def choose_input(graph: onnx.GraphProto, wanted: set[str]) -> onnx.ValueInfoProto:
    """The one real input among the tensors that are read.

    Raises
    ------
    ImportRefused
        If there is none, or more than one.
    """
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {tensor.values.name for tensor in graph.sparse_initializer}
    free = [value for value in graph.input if value.name not in stored]
    read = [value for value in free if value.name in wanted] or free
    if not read:
        raise ImportRefused(
            "the model has no input", remedy="export the network, not only its weights"
        )
    if len(read) > 1:
        names = ", ".join(f"'{value.name}'" for value in read)
        raise ImportRefused(
            f"the model has {len(read)} inputs ({names}); a Lipschitz constant needs one",
            remedy="concatenate the inputs into one before exporting (Split at the start of the "
            "graph), or store all but one as constants",
        )
    return read[0]


def select_graph(model: onnx.ModelProto, output: str | None = None) -> Graph:
    """Cut out of a model what one output needs.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, optional
        Tensor or node to cut at.

    Returns
    -------
    Graph

    Raises
    ------
    ImportRefused
        If a tensor is read that nothing makes, or there is no single input or output.
    """
    graph = model.graph
    output_name = choose_output(graph, output)
    if output is None:
        _tell_choice(graph, output_name)
    protos, wanted = ordered(graph, output_name)
    value = choose_input(graph, wanted)
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
    return Graph(nodes, constants, value.name, input_shape(value), output_name, versions)


def cut_model(model: onnx.ModelProto, output: str | None = None) -> onnx.ModelProto:
    """A model that holds only what one output needs, its nodes in order, to be run elsewhere.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, optional

    Returns
    -------
    onnx.ModelProto
        Its only output is the chosen tensor; its inputs and initializers are those it reads.
    """
    graph = model.graph
    output_name = choose_output(graph, output)
    protos, wanted = ordered(graph, output_name)
    value = choose_input(graph, wanted)
    cut = onnx.ModelProto()
    cut.ir_version = model.ir_version
    cut.opset_import.extend(model.opset_import)
    cut.functions.extend(model.functions)
    cut.graph.name = graph.name or "cut"
    initializers = [tensor for tensor in graph.initializer if tensor.name in wanted]
    names = {value.name, *(tensor.name for tensor in initializers)}
    cut.graph.input.extend(v for v in graph.input if v.name in names)
    cut.graph.initializer.extend(initializers)
    cut.graph.node.extend(protos)
    known = next((v for v in graph.output if v.name == output_name), None)
    if known is not None:
        cut.graph.output.append(known)
    else:
        cut.graph.output.append(onnx.ValueInfoProto(name=output_name))
    return cut
