"""The ONNX nodes of each supported PyTorch module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from torch import nn

from lipyomo.errors import ImportRefused
from lipyomo.importers.torch_writer import Writer

Emit: TypeAlias = Callable[[Writer, nn.Module, str, str, str], None]

_EMIT: dict[type[nn.Module], Emit] = {}


def _emits(*kinds: type[nn.Module]) -> Callable[[Emit], Emit]:
    def register(function: Emit) -> Emit:
        for kind in kinds:
            _EMIT[kind] = function
        return function

    return register


def is_supported(module: nn.Module) -> bool:
    """Whether this kind of module becomes nodes of its own."""
    return type(module) in _EMIT


def module_nodes(writer: Writer, module: nn.Module, name: str, x: str, y: str) -> None:
    """Write the nodes of one module that reads tensor `x` and makes tensor `y`.

    Raises
    ------
    ImportRefused
        If the kind of module, or an option of it, is not supported.
    """
    emit = _EMIT.get(type(module))
    if emit is None:
        raise ImportRefused(
            "the module is not supported",
            node=name,
            op_type=type(module).__name__,
            remedy="replace it by supported modules (Linear, Conv2d, BatchNorm2d, ReLU, LeakyReLU, "
            "PReLU, Hardtanh, MaxPool2d, AvgPool2d, Flatten, Dropout, ...), leave out a final "
            "Softmax or Sigmoid, or export the module with torch.onnx.export and load the file",
        )
    emit(writer, module, name, x, y)


def _pair(value: int | tuple[int, ...], axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _refuse(module: nn.Module, name: str, why: str) -> ImportRefused:
    return ImportRefused(
        why,
        node=name,
        op_type=type(module).__name__,
        remedy="export the module with torch.onnx.export and load the file",
    )


@_emits(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
def _identity(writer: Writer, module: nn.Module, name: str, x: str, y: str) -> None:
    writer.node("Identity", [x], y, name)


@_emits(nn.Linear)
def _linear(writer: Writer, module: nn.Linear, name: str, x: str, y: str) -> None:
    weight = writer.constant(module.weight.detach().T)
    if module.bias is None:
        writer.node("MatMul", [x, weight], y, name)
        return
    writer.node("MatMul", [x, weight], f"{y}.product", name)
    writer.node("Add", [f"{y}.product", writer.constant(module.bias)], y, f"{name}.bias")


@_emits(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def _conv(writer: Writer, module: nn.Conv2d, name: str, x: str, y: str) -> None:
    if module.padding_mode != "zeros":
        raise _refuse(module, name, f"padding mode '{module.padding_mode}' is not supported")
    axes = len(module.kernel_size)
    inputs = [x, writer.constant(module.weight)]
    if module.bias is not None:
        inputs.append(writer.constant(module.bias))
    strides, dilations = list(module.stride), list(module.dilation)
    if module.padding == "same":
        total = [d * (k - 1) for d, k in zip(dilations, module.kernel_size, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    elif module.padding == "valid":
        pads = [0] * (2 * axes)
    else:
        pads = 2 * _pair(module.padding, axes)
    writer.node(
        "Conv",
        inputs,
        y,
        name,
        strides=strides,
        dilations=dilations,
        pads=pads,
        group=module.groups,
    )


@_emits(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def _batch_norm(writer: Writer, module: nn.BatchNorm2d, name: str, x: str, y: str) -> None:
    if module.running_mean is None:
        raise _refuse(module, name, "it has no running statistics, so it depends on the batch")
    ones = np.ones(module.num_features)
    inputs = [
        writer.constant(ones if module.weight is None else module.weight),
        writer.constant(0.0 * ones if module.bias is None else module.bias),
        writer.constant(module.running_mean),
        writer.constant(module.running_var.double() + module.eps),
    ]
    writer.node("BatchNormalization", [x, *inputs], y, name, epsilon=0.0)


@_emits(nn.ReLU)
def _relu(writer: Writer, module: nn.ReLU, name: str, x: str, y: str) -> None:
    writer.node("Relu", [x], y, name)


@_emits(nn.LeakyReLU)
def _leaky(writer: Writer, module: nn.LeakyReLU, name: str, x: str, y: str) -> None:
    slope = writer.constant(np.array([float(module.negative_slope)]))
    writer.node("PRelu", [x, slope], y, name)


@_emits(nn.PReLU)
def _prelu(writer: Writer, module: nn.PReLU, name: str, x: str, y: str) -> None:
    channels = module.weight.detach().reshape(-1, *[1] * (writer.rank(x) - 2))
    writer.node("PRelu", [x, writer.constant(channels)], y, name)


@_emits(nn.Hardtanh, nn.ReLU6)
def _hardtanh(writer: Writer, module: nn.Hardtanh, name: str, x: str, y: str) -> None:
    limits = [writer.constant(np.float64(v)) for v in (module.min_val, module.max_val)]
    writer.node("Clip", [x, *limits], y, name)


@_emits(nn.Hardsigmoid)
def _hardsigmoid(writer: Writer, module: nn.Hardsigmoid, name: str, x: str, y: str) -> None:
    three, six = (writer.constant(np.float64(v)) for v in (3.0, 6.0))
    zero = writer.constant(np.float64(0.0))
    writer.node("Add", [x, three], f"{y}.shifted", f"{name}.shift")
    writer.node("Clip", [f"{y}.shifted", zero, six], f"{y}.clipped", name)
    writer.node("Div", [f"{y}.clipped", six], y, f"{name}.scale")


@_emits(nn.Flatten)
def _flatten(writer: Writer, module: nn.Flatten, name: str, x: str, y: str) -> None:
    if module.start_dim != 1 or module.end_dim != -1:
        raise _refuse(module, name, "only Flatten(1, -1) is supported")
    writer.node("Flatten", [x], y, name, axis=1)


@_emits(nn.AvgPool1d, nn.AvgPool2d)
def _average(writer: Writer, module: nn.AvgPool2d, name: str, x: str, y: str) -> None:
    if getattr(module, "divisor_override", None) is not None:
        raise _refuse(module, name, "divisor_override is not supported")
    axes = 1 if isinstance(module, nn.AvgPool1d) else 2
    writer.node(
        "AveragePool",
        [x],
        y,
        name,
        kernel_shape=_pair(module.kernel_size, axes),
        strides=_pair(module.stride, axes),
        pads=2 * _pair(module.padding, axes),
        ceil_mode=int(module.ceil_mode),
        count_include_pad=int(module.count_include_pad),
    )


@_emits(nn.MaxPool1d, nn.MaxPool2d)
def _max_pool(writer: Writer, module: nn.MaxPool2d, name: str, x: str, y: str) -> None:
    if module.return_indices:
        raise _refuse(module, name, "return_indices is not supported")
    axes = 1 if isinstance(module, nn.MaxPool1d) else 2
    writer.node(
        "MaxPool",
        [x],
        y,
        name,
        kernel_shape=_pair(module.kernel_size, axes),
        strides=_pair(module.stride, axes),
        pads=2 * _pair(module.padding, axes),
        dilations=_pair(module.dilation, axes),
        ceil_mode=int(module.ceil_mode),
    )


@_emits(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
def _global_average(writer: Writer, module: nn.Module, name: str, x: str, y: str) -> None:
    size = np.atleast_1d(np.asarray(module.output_size))
    if not (size == 1).all():
        raise _refuse(module, name, "only an output size of 1 is supported")
    writer.node("GlobalAveragePool", [x], y, name)
