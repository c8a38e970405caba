"""Convolutions as sparse matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.formats.onnx.graph import GraphNode
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.formats.onnx.lower.windows import Window, joint_positions, windows
from lipyomo.networks.building.affine import Tensor


def conv_matrix(
    batch: int, channels: int, weight: FloatArray, groups: int, found: list[Window]
) -> sp.csr_array:
    """Return the matrix of a convolution.

    Parameters
    ----------
    batch, channels : int
        First two axes of the input.
    weight : ndarray, shape (M, channels / groups, k_1, k_2, ...)
    groups : int
    found : list of Window
        One per spatial axis.

    Returns
    -------
    csr_array, shape (batch * M * windows, batch * channels * positions)
    """
    outputs, inner = weight.shape[:2]
    if inner * groups != channels or outputs % groups:
        raise ValueError(f"weight {weight.shape} for {channels} channels in {groups} groups")
    reads = joint_positions(found).astype(np.int32)
    area = int(np.prod([window.length for window in found]))
    kind = np.int32 if batch * channels * area < 2**31 else np.int64
    first = np.arange(outputs, dtype=kind) // (outputs // groups) * inner
    channel = first[:, None] + np.arange(inner, dtype=kind)
    # Axes: batch, output channel, window, input channel, place in the window.
    shape = (batch, outputs, reads.shape[0], inner, reads.shape[1])
    image = np.arange(batch, dtype=kind)[:, None, None, None, None] * channels
    columns = (image + channel[None, :, None, :, None]) * area + reads[None, None, :, None, :]
    factors = weight.reshape(1, outputs, 1, inner, -1)
    kept = np.broadcast_to((reads[None, None, :, None, :] >= 0) & (factors != 0.0), shape)
    row_sizes = kept.reshape(batch * outputs * reads.shape[0], -1).sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(row_sizes)])
    data = np.broadcast_to(factors, shape)[kept]
    size = (batch * outputs * reads.shape[0], batch * channels * area)
    return sp.csr_array((data, columns[kept], indptr), shape=size)


def _bias(call: Call, result: Tensor) -> Tensor:
    bias = call.optional(2)
    if bias is None:
        return result
    values = call.real(2, "the bias")
    return result.shift(values.reshape(-1, *[1] * (len(result.shape) - 2)))


def _kernel(node: GraphNode, weight: FloatArray, axes: int) -> tuple[int, ...]:
    kernel = weight.shape[2:]
    stated = node.integers("kernel_shape")
    if len(kernel) != axes or (stated is not None and tuple(stated) != kernel):
        raise ValueError(f"a kernel of shape {kernel} for {axes} spatial axes")
    return kernel


@lowers("Conv")
def conv(call: Call) -> Value:
    """Convolution over any number of spatial axes, with groups, strides, dilations and pads."""
    x, weight = call.tensor(0), call.real(1, "the weight")
    batch, channels, *spatial = x.shape
    found = windows(call.node, tuple(spatial), _kernel(call.node, weight, len(spatial)))
    operator = conv_matrix(batch, channels, weight, call.node.integer("group", 1), found)
    shape = (batch, weight.shape[0], *(window.count for window in found))
    return _bias(call, x.apply(operator, shape))


@lowers("ConvTranspose")
def conv_transpose(call: Call) -> Value:
    """The transposed matrix of the convolution that maps the output's shape to the input's."""
    node, x, weight = call.node, call.tensor(0), call.real(1, "the weight")
    batch, _, *spatial = x.shape
    axes, groups = len(spatial), node.integer("group", 1)
    kernel = _kernel(node, weight, axes)
    strides = node.integers("strides") or [1] * axes
    dilations = node.integers("dilations") or [1] * axes
    extra = node.integers("output_padding") or [0] * axes
    pads = node.integers("pads") or [0] * (2 * axes)
    wanted = node.integers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    found = []
    for axis, length in enumerate(spatial):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        full = strides[axis] * (length - 1) + extra[axis] + reach
        before, after = pads[axis], pads[axes + axis]
        target = wanted[-axes:][axis] if wanted else None
        if target is None and auto in ("SAME_UPPER", "SAME_LOWER"):
            target = length * strides[axis]
        if target is not None:
            total = full - target
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        size = full - before - after
        window = Window(size, kernel[axis], strides[axis], dilations[axis], before, after, length)
        found.append(window)
    outputs = weight.shape[1] * groups
    forward = conv_matrix(batch, outputs, weight, groups, found)
    shape = (batch, outputs, *(window.length for window in found))
    return _bias(call, x.apply(sp.csr_array(forward.T), shape))
