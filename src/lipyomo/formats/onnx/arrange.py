"""Choice of the input and the output of a model, and rewriting of models with several.

Inputs with given values become constants; the others are joined to one input.  Several outputs are
stacked to one.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from lipyomo.base.arguments import instance, real_numbers, warn_caller
from lipyomo.base.errors import ImportNote, ImportRefused, nearest_name
from lipyomo.formats.onnx.graph import REAL_TYPES, known_tensors, ordered

Output: TypeAlias = "str | Sequence[str] | None"
"""Tensors or nodes that are the outputs: one, or several that are stacked, ``"a,b"``."""

Fixed: TypeAlias = "Mapping[str, npt.ArrayLike]"
"""Values of inputs, by their names."""


class SeveralInputs(ImportNote):
    """A model has several inputs, which were joined."""


class Arranged(NamedTuple):
    """A model with one input and one output.

    Attributes
    ----------
    model : onnx.ModelProto
    output : str
        Name of the output.
    input : onnx.ValueInfoProto
    parts : dict of str to int
        Names and sizes of the model's inputs that were joined to this one, in order.
    nodes : list of onnx.NodeProto
        Those on which the output depends, in topological order.
    wanted : set of str
        The tensors that they read.
    """

    model: onnx.ModelProto
    output: str
    input: onnx.ValueInfoProto
    parts: dict[str, int]
    nodes: list[onnx.NodeProto]
    wanted: set[str]


def arranged(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> Arranged:
    """Rewrite a model to have one input and one output.

    Parameters
    ----------
    model : onnx.ModelProto
        Returned unchanged if it has.
    output : str, sequence of str, or None
    fixed : mapping of str to array_like, or None
        A single number is repeated over the whole input; values are rounded to the input's type.

    Raises
    ------
    ImportRefused
        If an input or output does not exist, values do not fit, or inputs cannot be joined.
    """
    if fixed:
        model = _with_fixed(model, fixed)
    chosen = _chosen(model.graph, output)
    if len(chosen) > 1:
        model = _stacked(model, chosen)
        chosen = [model.graph.output[0].name]
    model, parts = _joined(model, chosen[0])
    nodes, wanted = ordered(model.graph, chosen[0])
    free = free_inputs(model.graph)
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
    parts = parts or {read[0].name: math.prod(input_shape(read[0]))}
    return Arranged(model, chosen[0], read[0], parts, nodes, wanted)


def _names(graph: onnx.GraphProto, output: Output) -> Sequence[str | None]:
    """Return the names of the requested tensors or nodes."""
    if output is None:
        return (None,)
    if not isinstance(output, str):
        remedy = "give the names of tensors or nodes"
        for name in output or (None,):
            instance(name, str, "the name of an output", ImportRefused, remedy)
        return output
    known = {*known_tensors(graph), *(node.name for node in graph.node)}
    several = [name.strip() for name in output.split(",")]
    return [output] if output in known or len(several) == 1 else several


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(model)
    return found


def _fresh(graph: onnx.GraphProto, wanted: str) -> str:
    """Return an unused name for a tensor."""
    taken = {*known_tensors(graph), *(tensor.name for tensor in graph.initializer)}
    while wanted in taken:
        wanted += "_"
    return wanted


def _stacked(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Return the model with one output, the flattened and joined given ones."""
    found = _copy(model)
    graph = found.graph
    rows = [_fresh(graph, f"{name}/row") for name in outputs]
    graph.node.extend(
        helper.make_node("Flatten", [name], [row], axis=0)
        for name, row in dict(zip(outputs, rows, strict=True)).items()
    )
    whole = _fresh(graph, ",".join(outputs))
    graph.node.append(helper.make_node("Concat", rows, [whole], axis=1))
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name=whole))
    return found


def _with_fixed(model: onnx.ModelProto, fixed: Fixed) -> onnx.ModelProto:
    """Return the model with some inputs replaced by constants."""
    remedy = "give a mapping of names of inputs to values"
    instance(fixed, Mapping, "fixed", ImportRefused, remedy)
    found = _copy(model)
    inputs = {value.name: value for value in free_inputs(found.graph)}
    for name, numbers in fixed.items():
        if name not in inputs:
            listed = ", ".join(f"'{known}'" for known in inputs) or "none"
            raise ImportRefused(
                f"the model has no input '{name}' to fix", remedy=f"its inputs are {listed}"
            )
        found.graph.initializer.append(_tensor(inputs[name], numbers))
    if inputs.keys() <= fixed.keys():
        raise ImportRefused("all inputs of the model are fixed", remedy="leave one that can move")
    kept = [value for value in found.graph.input if value.name not in fixed]
    del found.graph.input[:]
    found.graph.input.extend(kept)
    return found


def _tensor(value: onnx.ValueInfoProto, numbers: Any) -> TensorProto:
    """Convert values of an input to a constant tensor."""
    name, kind = value.name, value.type.tensor_type.elem_type
    shape = input_shape(value, real=False)
    values = real_numbers(numbers, f"the value of the input '{name}'", ImportRefused)
    if values.size == 1:
        values = np.full(shape, values.reshape(-1)[0])
    if values.size != math.prod(shape):
        raise ImportRefused(
            f"the input '{name}' has {math.prod(shape)} entries of shape {shape}, but "
            f"{values.size} values were given",
            remedy="give one number, or one for each entry, row by row",
        )
    typed = values.reshape(shape).astype(helper.tensor_dtype_to_np_dtype(kind))
    whole = typed.dtype.kind in "iub"
    if not np.isfinite(values).all() or (whole and (typed != values.reshape(shape)).any()):
        raise ImportRefused(
            f"the input '{name}' cannot have these values",
            remedy="give whole numbers, as it holds" if whole else "give finite numbers",
        )
    return numpy_helper.from_array(typed, name)


def _joined(model: onnx.ModelProto, output: str) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Return the model with one input, the joined inputs on which the output depends.

    Also return their names and sizes; none if there is nothing to join.
    """
    inputs = _read(model.graph, [output])
    if len(inputs) < 2:
        return model, {}
    kinds = {value.type.tensor_type.elem_type for value in inputs}
    if len(kinds) > 1 or not kinds <= REAL_TYPES:
        names = ", ".join(f"'{value.name}'" for value in inputs)
        raise ImportRefused(
            f"the inputs {names} are of different types or no real numbers, and cannot be joined",
            remedy="give those that do not vary a value: --fix NAME=VALUE, or fixed={NAME: VALUE}",
        )
    shapes = [input_shape(value) for value in inputs]
    sizes = [math.prod(shape) for shape in shapes]
    found = _copy(model)
    graph = found.graph
    row = _fresh(graph, ",".join(value.name for value in inputs))
    nodes, first = [], 0
    for value, shape, size in zip(inputs, shapes, sizes, strict=True):
        places = np.arange(first, first + size, dtype=np.int64).reshape(shape)
        where = _fresh(graph, f"{value.name}/places")
        graph.initializer.append(numpy_helper.from_array(places, where))
        nodes.append(helper.make_node("Gather", [row, where], [value.name], axis=0))
        first += size
    parts = {value.name for value in inputs}
    others = [value for value in graph.input if value.name not in parts]
    nodes += graph.node
    del graph.input[:], graph.node[:]
    graph.input.append(helper.make_tensor_value_info(row, kinds.pop(), [first]))
    graph.input.extend(others)
    graph.node.extend(nodes)
    return found, dict(zip((value.name for value in inputs), sizes, strict=True))


# -- choice ---------------------------------------------------------------------------------------


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
        warn_caller(
            f"the model also has the output{'s' * (len(others) > 1)} {listed}; '{chosen}' was "
            "taken, choose another, or several (a,b), with --output-node",
            SeveralOutputs,
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


def report_choices(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> None:
    """Warn of ignored outputs and of joined inputs."""
    graph = model.graph
    chosen = _chosen(graph, output)
    if output is None:
        report_choice(graph, chosen[0])
    inputs = [value for value in _read(graph, chosen) if value.name not in (fixed or ())]
    if len(inputs) > 1:
        parts = [f"'{value.name}' ({math.prod(input_shape(value))})" for value in inputs]
        warn_caller(
            f"the model has {len(inputs)} inputs, which are joined in this order: "
            f"{', '.join(parts)}; to give one a value: --fix NAME=VALUE, or fixed={{NAME: VALUE}}",
            SeveralInputs,
        )


def _chosen(graph: onnx.GraphProto, output: Output) -> list[str]:
    """Return the tensors that are the outputs."""
    return [choose_output(graph, name) for name in _names(graph, output)]


def _read(graph: onnx.GraphProto, outputs: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """Return the inputs on which the outputs depend."""
    wanted = {name for output in outputs for name in ordered(graph, output)[1]}
    return [value for value in free_inputs(graph) if value.name in wanted]
