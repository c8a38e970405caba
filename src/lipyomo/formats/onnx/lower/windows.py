"""Sliding windows over spatial axes, for convolutions and pooling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.formats.onnx.graph import GraphNode


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
    strides = node.integers("strides") or [1] * axes
    dilations = node.integers("dilations") or [1] * axes
    pads = node.integers("pads") or [0] * (2 * axes)
    auto = node.text("auto_pad", "NOTSET")
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
