"""One input and one output for models that have several: models are rewritten before they are read.

Inputs that are given a value become constants; others are parts of one joined input.  Several
outputs are stacked into one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from lipyomo.base.arguments import instance, real_numbers
from lipyomo.base.errors import ImportNote, ImportRefused
from lipyomo.formats.onnx.choose import choose_output, free_inputs, input_shape, report_choice
from lipyomo.formats.onnx.graph import REAL_TYPES, known_tensors, ordered

Output: TypeAlias = "str | Sequence[str] | None"
"""Tensors or nodes at which a graph is cut: one, or several that are stacked, ``"a,b"``."""

Fixed: TypeAlias = "Mapping[str, npt.ArrayLike]"
"""Values of inputs, by their names."""


class SeveralInputs(ImportNote):
    """A model has several inputs, which were joined."""


class Arranged(NamedTuple):
    """A model of one input and one output.

    Attributes
    ----------
    model : onnx.ModelProto
    output : str
        The name of its output.
    parts : dict of str to int
        Names of the inputs that its input is made of, in their order, and their sizes.
    """

    model: onnx.ModelProto
    output: str
    parts: dict[str, int]


def arranged(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> Arranged:
    """A model of one input and one output, and what they are.

    Parameters
    ----------
    model : onnx.ModelProto
        Returned as it is if nothing is to be done.
    output : str, sequence of str, or None
    fixed : mapping of str to array_like, or None
        Numbers are repeated over the whole input; they are rounded to the type of the input.

    Raises
    ------
    ImportRefused
        If there is no such input or output, or values do not fit.
    """
    if fixed:
        model = _with_fixed(model, fixed)
    chosen = _chosen(model.graph, output)
    if len(chosen) > 1:
        model = _stacked(model, chosen)
        chosen = [model.graph.output[0].name]
    return _joined(model, chosen[0])


def _names(graph: onnx.GraphProto, output: Output) -> Sequence[str | None]:
    """The tensors or nodes that are asked for."""
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
    """A name for a tensor that no other has."""
    taken = {*known_tensors(graph), *(tensor.name for tensor in graph.initializer)}
    while wanted in taken:
        wanted += "_"
    return wanted


def _stacked(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """The model with one output, a row of the entries of several."""
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
    """The model with constants for some inputs."""
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
    """The values of an input as a constant."""
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


def _joined(model: onnx.ModelProto, output: str) -> Arranged:
    """The model with one input, a row of the entries of all that the output reads."""
    inputs = _read(model.graph, [output])
    if len(inputs) < 2:
        return Arranged(model, output, {})
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
    return Arranged(found, output, dict(zip((value.name for value in inputs), sizes, strict=True)))


def report_choices(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> None:
    """Warn of outputs that were left out, and of inputs that were joined."""
    graph = model.graph
    chosen = _chosen(graph, output)
    if output is None:
        report_choice(graph, chosen[0])
    inputs = [value for value in _read(graph, chosen) if value.name not in (fixed or ())]
    if len(inputs) > 1:
        parts = [f"'{value.name}' ({math.prod(input_shape(value))})" for value in inputs]
        warnings.warn(
            f"the model has {len(inputs)} inputs, which are joined in this order: "
            f"{', '.join(parts)}; to give one a value: --fix NAME=VALUE, or fixed={{NAME: VALUE}}",
            SeveralInputs,
            stacklevel=3,
        )


def _chosen(graph: onnx.GraphProto, output: Output) -> list[str]:
    """The tensors that are the outputs."""
    return [choose_output(graph, name) for name in _names(graph, output)]


def _read(graph: onnx.GraphProto, outputs: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """The inputs that outputs depend on."""
    wanted = {name for output in outputs for name in ordered(graph, output)[1]}
    return [value for value in free_inputs(graph) if value.name in wanted]
