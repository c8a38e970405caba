"""Convolutions and pooling: sliding windows over spatial axes, as sparse matrices and maxima."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.formats.onnx.graph import GraphNode
from lipyomo.formats.onnx.lower.reductions import through_increasing
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.trace import Trace


@dataclass(frozen=True)
class Window:
    """Sliding windows along one axis.

    Parameters
    ----------
    length, kernel, stride, dilation : int
    before, after : int
        Padding.
    count : int
        Number of windows.
    """

    length: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def _places(self) -> IntArray:
        """Places of all windows, shape (count, kernel); those before 0 are padding."""
        start = np.arange(self.count)[:, None] * self.stride - self.before
        return start + np.arange(self.kernel) * self.dilation

    @property
    def positions(self) -> IntArray:
        """Positions that each window reads, shape (count, kernel); -1 for padding."""
        places = self._places
        return np.where((places < 0) | (places >= self.length), -1, places)

    @property
    def padded(self) -> IntArray:
        """Number of places of each window within the axis and its padding, shape (count,)."""
        return np.asarray((self._places < self.length + self.after).sum(axis=1))


def _layout(node: GraphNode, axes: int) -> tuple[list[int], list[int], list[int], str]:
    """Return the strides, dilations and pads of a node, and how pads are chosen."""
    strides = node.integers("strides") or [1] * axes
    dilations = node.integers("dilations") or [1] * axes
    pads = node.integers("pads") or [0] * (2 * axes)
    return strides, dilations, pads, node.text("auto_pad", "NOTSET")


def windows(node: GraphNode, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> list[Window]:
    """Return the windows of a Conv or pooling node along each spatial axis.

    Parameters
    ----------
    node : GraphNode
        Its strides, dilations, pads, auto_pad and ceil_mode are read.
    spatial : tuple of int
        Lengths of the axes.
    kernel : tuple of int

    Raises
    ------
    ImportRefused
        If a window does not fit.
    """
    axes = len(spatial)
    strides, dilations, pads, auto = _layout(node, axes)
    ceil = bool(node.integer("ceil_mode", 0))
    found = []
    for axis in range(axes):
        length, stride, dilation = spatial[axis], strides[axis], dilations[axis]
        reach = (kernel[axis] - 1) * dilation + 1
        before, after = pads[axis], pads[axes + axis]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-length // stride) - 1) * stride + reach - length, 0)
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        elif auto == "VALID":
            before = after = 0
        room = length + before + after - reach
        if room < 0 or stride < 1 or reach < 1:
            raise node.refuse(
                f"a window of {reach} does not fit into {length} entries along spatial axis {axis}",
                "export the model with a larger input",
            )
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= length + before:
            count -= 1
        found.append(Window(length, kernel[axis], stride, dilation, before, after, count))
    return found


def joint_positions(found: list[Window]) -> IntArray:
    """Return flat spatial positions of all windows, shape (windows, places); -1 is padding."""
    joint = np.zeros((1, 1), dtype=np.intp)
    for window in found:
        along = window.positions
        valid = (joint[:, None, :, None] >= 0) & (along[None, :, None, :] >= 0)
        both = joint[:, None, :, None] * window.length + along[None, :, None, :]
        joint = np.where(valid, both, -1).reshape(
            joint.shape[0] * along.shape[0], joint.shape[1] * along.shape[1]
        )
    return joint


# -- convolutions ---------------------------------------------------------------------------------


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
    strides, dilations, pads, auto = _layout(node, axes)
    extra = node.integers("output_padding") or [0] * axes
    wanted = node.integers("output_shape")
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


# -- pooling --------------------------------------------------------------------------------------


def _windows(call: Call, shape: tuple[int, ...]) -> list[Window]:
    kernel = call.node.integers("kernel_shape")
    if kernel is None or len(kernel) != len(shape) - 2:
        raise ValueError(f"a kernel of shape {kernel} for {len(shape) - 2} spatial axes")
    return windows(call.node, shape[2:], tuple(kernel))


@lowers("AveragePool")
def average_pool(call: Call) -> Value:
    """Mean over windows, including padding if `count_include_pad` is set."""
    x = call.tensor(0)
    found = _windows(call, x.shape)
    reads = joint_positions(found)
    if call.node.integer("count_include_pad", 0):
        count = np.ones(1)
        for window in found:
            count = np.outer(count, window.padded).reshape(-1)
    else:
        count = (reads >= 0).sum(axis=1)
    images = x.shape[0] * x.shape[1]
    rows, places = np.nonzero(reads >= 0)
    one = sp.csr_array(
        (1.0 / count[rows], (rows, reads[rows, places])),
        shape=(reads.shape[0], int(np.prod(x.shape[2:]))),
    )
    operator = sp.csr_array(sp.kron(sp.eye_array(images), one, format="csr"))
    return x.apply(operator, (*x.shape[:2], *(window.count for window in found)))


def _along(trace: Trace, x: Tensor, axis: int, positions: IntArray) -> Tensor:
    """Return the maximum over windows along one axis; `positions` has shape (windows, places).

    Padding is replaced by another entry of the same window, since ``max(a, a)`` needs no unit.
    """
    spare = np.max(positions, axis=1, keepdims=True)
    inside = np.where(positions < 0, spare, positions)
    index = x.index
    pieces = [x.take(np.take(index, place, axis=axis)) for place in inside.T]
    return tree(pieces, trace.maximum)


@lowers("MaxPool")
def max_pool(call: Call) -> list[Value]:
    """Maximum over windows, axis by axis, so that overlapping windows share comparisons."""
    x = call.tensor(0)
    found = list(enumerate(_windows(call, x.shape), start=2))

    def pool(tensor: Tensor) -> Tensor:
        for axis, window in reversed(found):
            tensor = _along(call.trace, tensor, axis, window.positions)
        return tensor

    return [through_increasing(call.trace, x, pool)]
