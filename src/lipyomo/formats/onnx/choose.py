"""Choice of the input and the output of a graph."""

from __future__ import annotations

import shlex
import warnings

import onnx

from lipyomo.base.errors import ImportNote, ImportRefused, nearest_name
from lipyomo.formats.onnx.graph import REAL_TYPES, known_tensors, ordered


def choose_output(graph: onnx.GraphProto, output: str | None) -> str:
    """Return the tensor that is the network's output.

    Parameters
    ----------
    graph : onnx.GraphProto
    output : str, optional
        A tensor, or a node (whose first output is used).  By default the only output of the graph,
        or the only real output that is not an intermediate result of another one.

    Raises
    ------
    ImportRefused
        If there is no such tensor or node, or the default is not unique.
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
        known = " or ".join(f"'{value.name}'" for value in graph.output)
        raise ImportRefused(
            f"there is no tensor or node '{output}' to cut at",
            remedy=nearest_name(output, names, f"did you mean {known}?"),
        )
    outputs = list({value.name: value for value in graph.output}.values())
    if len(outputs) > 1:  # scikit-learn's converter adds integer labels to the real outputs
        outputs = [value for value in outputs if _is_real(value)] or outputs
    names = [str(value.name) for value in outputs]
    if len(names) > 1:  # some may be intermediate results of another one
        read = {name: ordered(graph, name)[1] - {name} for name in names}
        final = [name for name in names if not any(name in read[other] for other in names)]
        if len(final) != 1:
            raise ImportRefused(
                f"the model has {len(names)} outputs: " + ", ".join(f"'{name}'" for name in names),
                remedy=f"choose one, for example --output-node {shlex.quote(names[0])}, or several "
                f"as one function: --output-node {shlex.quote(','.join(names))}",
            )
        names = final
    return names[0]


class SeveralOutputs(ImportNote):
    """A model has several outputs, of which one was chosen."""


def report_choice(graph: onnx.GraphProto, chosen: str) -> None:
    """Warn that a model has other outputs."""
    others = [value.name for value in graph.output if value.name != chosen and _is_real(value)]
    if others:
        listed = ", ".join(f"'{name}'" for name in others)
        warnings.warn(
            f"the model also has the output{'s' * (len(others) > 1)} {listed}; '{chosen}' was "
            "taken, choose another, or several (a,b), with --output-node",
            SeveralOutputs,
            stacklevel=2,
        )


def _is_real(value: onnx.ValueInfoProto) -> bool:
    """Return whether an output has a real type, or an unknown one."""
    kind = value.type.tensor_type.elem_type
    return not value.type.HasField("tensor_type") or kind in REAL_TYPES | {0}


def input_shape(value: onnx.ValueInfoProto, real: bool = True) -> tuple[int, ...]:
    """Return the shape of an input, with a free batch dimension (the first) set to one.

    Parameters
    ----------
    value : onnx.ValueInfoProto
    real : bool, optional
        Whether the input must have a real type.
    """
    tensor = value.type.tensor_type
    wrong = real and tensor.elem_type not in REAL_TYPES
    if not value.type.HasField("tensor_type") or wrong:
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


def free_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no initializer."""
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in stored]


def choose_input(graph: onnx.GraphProto, wanted: set[str]) -> onnx.ValueInfoProto:
    """Return the only input among the tensors that are read.

    Raises
    ------
    ImportRefused
        If there is none, or more than one.
    """
    free = free_inputs(graph)
    read = [value for value in free if value.name in wanted] or free
    if not read:
        raise ImportRefused(
            "the model has no input", remedy="export the network, not only its weights"
        )
    if len(read) > 1:
        names = ", ".join(f"'{value.name}'" for value in read)
        raise ImportRefused(
            f"the model has {len(read)} inputs ({names}); a Lipschitz constant needs one",
            remedy="give all but one a value: --fix NAME=VALUE, or fixed={NAME: VALUE}",
        )
    return read[0]
