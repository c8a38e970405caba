"""The ONNX nodes of the functions and methods that a traced PyTorch module calls."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as functional
from torch import fx, nn

from lipyomo.errors import ImportRefused
from lipyomo.importers.torch_modules import module_nodes
from lipyomo.importers.torch_writer import Writer

Argument: TypeAlias = "fx.Node | torch.Tensor | float | int | bool | None"

_BINARY: dict[object, str] = {
    operator.add: "Add",
    operator.iadd: "Add",
    torch.add: "Add",
    "add": "Add",
    "add_": "Add",
    operator.sub: "Sub",
    torch.sub: "Sub",
    "sub": "Sub",
    operator.mul: "Mul",
    torch.mul: "Mul",
    "mul": "Mul",
    operator.truediv: "Div",
    torch.div: "Div",
    "div": "Div",
    operator.matmul: "MatMul",
    torch.matmul: "MatMul",
    "matmul": "MatMul",
    torch.maximum: "Max",
    torch.minimum: "Min",
}

_UNARY: dict[object, str] = {
    torch.relu: "Relu",
    functional.relu: "Relu",
    "relu": "Relu",
    "relu_": "Relu",
    torch.abs: "Abs",
    "abs": "Abs",
    operator.neg: "Neg",
    torch.neg: "Neg",
    "neg": "Neg",
    "contiguous": "Identity",
    "double": "Identity",
    "float": "Identity",
}


def tensor_name(node: fx.Node, position: int) -> str:
    """Name of a tensor that is an argument of `node`."""
    argument = node.args[position] if position < len(node.args) else node.kwargs.get("input")
    if not isinstance(argument, fx.Node):
        raise _refused(node, "an argument is not a tensor")
    return str(argument.name)


def _refused(node: fx.Node, why: str) -> ImportRefused:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "?")
    return ImportRefused(
        why,
        node=node.name,
        op_type=str(target),
        remedy="export the module with torch.onnx.export and load the file",
    )


def _option(node: fx.Node, position: int, key: str, default: Argument) -> Argument:
    """An argument that may be given by position or by name."""
    if position < len(node.args):
        return node.args[position]
    return node.kwargs.get(key, default)


def _number(node: fx.Node, position: int, key: str, default: float) -> float:
    value = _option(node, position, key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(node, f"the argument '{key}' is not a number")
    return float(value)


def write_call(writer: Writer, node: fx.Node) -> None:
    """Write a call of a function or method.

    Parameters
    ----------
    writer : Writer
    node : fx.Node
        A traced ``call_function`` or ``call_method``.

    Raises
    ------
    ImportRefused
        If the call is not supported.
    """
    target = node.target
    if target in _UNARY:
        writer.node(_UNARY[target], [tensor_name(node, 0)], node.name, node.name)
    elif target in _BINARY:
        _binary(writer, node, _BINARY[target])
    elif target in _SPECIAL:
        _SPECIAL[target](writer, node)
    elif target in _AS_MODULE:
        _as_module(writer, node, _AS_MODULE[target])
    else:
        raise _refused(node, "the call is not supported")


def _binary(writer: Writer, node: fx.Node, op_type: str) -> None:
    if node.kwargs:
        raise _refused(node, f"the arguments {', '.join(node.kwargs)} are not supported")
    names = [
        str(argument.name)
        if isinstance(argument, fx.Node)
        else writer.constant(np.float64(argument))
        for argument in node.args
    ]
    writer.node(op_type, names, node.name, node.name)


def _as_module(writer: Writer, node: fx.Node, kind: type[nn.Module]) -> None:
    """A function that does what a module with the same options does."""
    options = {key: value for key, value in node.kwargs.items() if key not in ("input", "inplace")}
    values = [*node.args[1:], *options.values()]
    if any(isinstance(value, fx.Node) for value in values):
        raise _refused(node, "an option is computed")
    module_nodes(
        writer, kind(*node.args[1:], **options), node.name, tensor_name(node, 0), node.name
    )


def _mean(writer: Writer, node: fx.Node) -> None:
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keep = _option(node, 2, "keepdim", False)
    source = tensor_name(node, 0)
    every = list(range(writer.rank(source)))
    chosen = [axes] if isinstance(axes, int) else list(axes or every)
    writer.node("ReduceMean", [source], node.name, node.name, axes=chosen, keepdims=int(bool(keep)))


def _leaky(writer: Writer, node: fx.Node) -> None:
    slope = writer.constant(np.array([_number(node, 1, "negative_slope", 0.01)]))
    writer.node("PRelu", [tensor_name(node, 0), slope], node.name, node.name)


def _flatten(writer: Writer, node: fx.Node) -> None:
    start = int(_number(node, 1, "start_dim", 0))
    end = int(_number(node, 2, "end_dim", -1))
    if end != -1 or start not in (0, 1):
        raise _refused(node, "only flatten(x, 1) and flatten(x, 0) are supported")
    shape = [-1] if start == 0 else [0, -1]
    inputs = [tensor_name(node, 0), writer.constant(np.array(shape))]
    writer.node("Reshape", inputs, node.name, node.name)


def _reshape(writer: Writer, node: fx.Node) -> None:
    sizes = node.args[1] if isinstance(node.args[1], tuple | list) else node.args[1:]
    target = []
    for axis, size in enumerate(sizes):
        batch = isinstance(size, fx.Node) and size.target in ("size", operator.getitem)
        if batch and axis == 0:
            target.append(1)
        elif isinstance(size, int):
            target.append(size)
        else:
            raise _refused(node, "the shape is computed")
    inputs = [tensor_name(node, 0), writer.constant(np.array(target))]
    writer.node("Reshape", inputs, node.name, node.name)


def _size(writer: Writer, node: fx.Node) -> None:
    """Sizes are read by reshapes only, which know that the batch is one."""
    source = node.args[0]
    if node.target is operator.getitem and (
        not isinstance(source, fx.Node) or source.target not in ("size", getattr)
    ):
        raise _refused(node, "indexing is not supported")
    index = _option(node, 1, "dim", None)
    readers_ok = all(user.target in ("view", "reshape", operator.getitem) for user in node.users)
    if index not in (0, None) or not readers_ok:
        raise _refused(node, "only the batch size may be read, in a reshape")


def _shape_of(writer: Writer, node: fx.Node) -> None:
    """``x.shape``, of which only the batch may be read."""
    if node.args[1] != "shape" or any(user.target is not operator.getitem for user in node.users):
        raise _refused(node, "only the batch size may be read, in a reshape")


def _concat(writer: Writer, node: fx.Node) -> None:
    axis = int(_number(node, 1, "dim", 0))
    names = [str(part.name) for part in node.args[0] if isinstance(part, fx.Node)]
    if len(names) != len(node.args[0]):
        raise _refused(node, "an argument is not a tensor")
    writer.node("Concat", names, node.name, node.name, axis=axis)


def _clamp(writer: Writer, node: fx.Node) -> None:
    names = [tensor_name(node, 0)]
    for position, key in ((1, "min"), (2, "max")):
        if _option(node, position, key, None) is None:
            names.append("")
        else:
            names.append(writer.constant(np.float64(_number(node, position, key, 0.0))))
    writer.node("Clip", names, node.name, node.name)


def _relu6(writer: Writer, node: fx.Node) -> None:
    limits = [writer.constant(np.float64(0.0)), writer.constant(np.float64(6.0))]
    writer.node("Clip", [tensor_name(node, 0), *limits], node.name, node.name)


def _dropout(writer: Writer, node: fx.Node) -> None:
    writer.node("Identity", [tensor_name(node, 0)], node.name, node.name)


_AS_MODULE: dict[object, type[nn.Module]] = {
    functional.max_pool1d: nn.MaxPool1d,
    functional.max_pool2d: nn.MaxPool2d,
    functional.avg_pool1d: nn.AvgPool1d,
    functional.avg_pool2d: nn.AvgPool2d,
    functional.adaptive_avg_pool1d: nn.AdaptiveAvgPool1d,
    functional.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    functional.hardtanh: nn.Hardtanh,
    functional.hardsigmoid: nn.Hardsigmoid,
}

_SPECIAL: dict[object, Callable[[Writer, fx.Node], None]] = {
    functional.leaky_relu: _leaky,
    functional.relu6: _relu6,
    functional.dropout: _dropout,
    torch.mean: _mean,
    "mean": _mean,
    torch.flatten: _flatten,
    "flatten": _flatten,
    torch.reshape: _reshape,
    "reshape": _reshape,
    "view": _reshape,
    "size": _size,
    operator.getitem: _size,
    getattr: _shape_of,
    torch.cat: _concat,
    torch.clamp: _clamp,
    "clamp": _clamp,
}
