"""QuantizeLinear and DequantizeLinear: weights are folded, rounded signals become new inputs.

A signal v that is quantised and dequantised with step s and zero point z is

    ``r = s (clip(round(v / s) + z) - z)``,

a multiple of s between ``s (least - z)`` and ``s (most - z)``.  As rounding commutes with clipping
to integers, r is ``clip(v + s e)`` to these two, for some e in [-1/2, 1/2]: with e as an additional
input, the graph becomes a network whose range over e contains the value of the quantised one.  With
r itself as an additional input, the network can be evaluated for given rounded signals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.formats.onnx.graph import Array, GraphNode
from lipyomo.formats.onnx.lower.registry import Call
from lipyomo.formats.onnx.lower.units import clip_between
from lipyomo.networks.building.affine import Tensor

LIMITS = {
    "uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
    "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1),
}  # fmt: skip
"""Least and largest number of each type for quantised signals."""

KEEPING = {
    "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather",
    "Split", "Concat", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Relu", "MaxPool",
    "GlobalMaxPool", "ReduceMax", "ReduceMin",
}  # fmt: skip
"""Operators whose outputs are entries of their inputs, or zero, a multiple of all steps."""


class StepGrid(NamedTuple):
    """The multiples ``low s, ..., high s`` of a step s.

    Attributes
    ----------
    step : ndarray
        One number, or an array that broadcasts to the tensor.
    low, high : ndarray
        Integers, of the same shape or scalars.
    """

    step: FloatArray
    low: FloatArray
    high: FloatArray

    def is_same(self, other: StepGrid) -> bool:
        """Return whether all numbers of two grids are equal."""
        return all(np.array_equal(a, b) for a, b in zip(self, other, strict=True))


@dataclass(frozen=True, eq=False)
class Rounded:
    """A quantised signal, which only DequantizeLinear can read.

    Attributes
    ----------
    value : Tensor
        The dequantised signal.
    grid : StepGrid
    """

    value: Tensor
    grid: StepGrid

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.value.shape

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.value.nbytes


class Quantiser(NamedTuple):
    """A node that rounds a signal.

    Attributes
    ----------
    signal, made : str
        Names of its input and output.
    before : Tensor
        The signal before rounding.
    step, low, high : ndarray, shape (entries,)
        Its grid, for each entry.
    zero : ndarray, shape (entries,)
        Zero points.
    """

    signal: str
    made: str
    before: Tensor
    step: FloatArray
    low: FloatArray
    high: FloatArray
    zero: FloatArray


@dataclass
class Quantisers:
    """The quantisers of a graph in order, recorded while it is lowered.

    Parameters
    ----------
    held : bool
        Whether the rounded signals are additional inputs, instead of the rounding errors.
    """

    held: bool
    met: list[Quantiser] = field(default_factory=list)


def _parameters(call: Call) -> tuple[FloatArray, Array, str]:
    """Return steps and zero points, broadcastable to the tensor, and the integer type."""
    node = call.node
    x = call.value(0)
    step = call.real(1, "the scale")
    if call.optional(2) is not None:
        zero = call.constant(2, "the zero point")
        kind = zero.dtype.name
    elif node.op_type == "DequantizeLinear" and isinstance(x, np.ndarray):
        zero, kind = np.zeros(()), x.dtype.name
    else:
        import onnx

        wanted = node.integer("output_dtype", 0) or onnx.TensorProto.UINT8
        zero, kind = np.zeros(()), np.dtype(onnx.helper.tensor_dtype_to_np_dtype(wanted)).name
    if not (np.isfinite(step).all() and (step > 0).all()):
        raise node.refuse("a scale is not a positive number", "quantise the network again")
    zero = zero.astype(np.int64)
    if zero.shape != step.shape and not zero.size == step.size == 1:
        zero = np.broadcast_to(zero, step.shape)
    return _spread(node, x.shape, step), _spread(node, x.shape, zero), kind


def _spread(node: GraphNode, shape: tuple[int, ...], values: Array) -> Array:
    """Reshape parameters of a tensor, of slices along an axis, or of blocks, to broadcast to it."""
    if values.size == 1:
        return values.reshape(())
    axis = node.integer("axis", 1) % max(len(shape), 1)
    block = node.integer("block_size", 0)
    if block:
        return np.repeat(values, block, axis=axis).take(range(shape[axis]), axis=axis)
    if values.shape != (shape[axis],):
        raise ValueError(f"scales of shape {values.shape} for a tensor of shape {shape}")
    return values.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def _grid(call: Call) -> tuple[StepGrid, FloatArray]:
    """Return the grid of a node, and its zero points."""
    step, zero, kind = _parameters(call)
    if kind not in LIMITS:
        raise call.node.refuse(
            f"signals are rounded to the type {kind}, whose steps are not even",
            "quantise the network to int8, uint8, int16 or uint16",
        )
    least, most = LIMITS[kind]
    zeros = zero.astype(np.float64)
    return StepGrid(step, least - zeros, most - zeros), zeros


def quantise(call: Call, quantisers: Quantisers | None, known: StepGrid | None) -> Rounded | Array:
    """Lower QuantizeLinear; constants are rounded as in float32.

    Parameters
    ----------
    call : Call
    quantisers : Quantisers or None
        None if rounded signals are refused.
    known : StepGrid or None
        Grid on which all entries are known to lie already.

    Raises
    ------
    ImportRefused
        If rounded signals are refused, or the type is not supported.
    """
    x = call.value(0)
    if not isinstance(x, Tensor):
        step, zero, kind = _parameters(call)
        if kind not in LIMITS:
            raise call.node.refuse(
                f"constants are rounded to the type {kind}", "export the weights as they are stored"
            )
        whole = np.rint(np.asarray(x, np.float32) / step.astype(np.float32)).astype(np.float64)
        return np.clip(whole + zero, *LIMITS[kind]).astype(np.int64)
    if quantisers is None:
        raise call.node.refuse(
            "the activations are quantised: rounding makes a step function, which has no Lipschitz "
            "constant",
            "ask for its values: lipyomo range NET bounds them, lipyomo difference FLOAT_NET NET "
            "how far they are from those of the float network; or import the float network",
        )
    grid, zero = _grid(call)
    if known is not None and known.is_same(grid):
        return Rounded(x, grid)  # multiples of the step are rounded to themselves
    step, low, high, zero = (
        np.broadcast_to(part, x.shape).reshape(-1)
        for part in (grid.step, grid.low, grid.high, zero)
    )
    signal, made = call.node.inputs[0], call.node.outputs[0]
    quantisers.met.append(Quantiser(signal, made, x, step, low, high, zero))
    new = call.trace.further_inputs(x.shape)
    if quantisers.held:
        return Rounded(new, grid)
    ends = (grid.low * grid.step, grid.high * grid.step)
    return Rounded(clip_between(call.trace, x + new.scale(grid.step), *ends), grid)


def dequantise(call: Call, rounded: Rounded | None) -> Tensor | Array:
    """Lower DequantizeLinear, ``(q - z) s``; for constants in float32, as in onnxruntime.

    Parameters
    ----------
    call : Call
    rounded : Rounded or None
        The first argument, if it is a signal.
    """
    if rounded is None:
        whole = call.constant(0, "what is dequantised")
        step, zero, kind = _parameters(call)
        if kind.startswith("float"):
            numbers = whole.astype(np.float32)
        else:
            numbers = (whole.astype(np.int64) - zero).astype(np.float32)
        return np.asarray(numbers * step.astype(np.float32)).astype(np.float64)
    grid, _ = _grid(call)
    if not grid.is_same(rounded.grid):
        raise call.node.refuse(
            "a signal is dequantised with another scale or zero point than it was quantised with",
            "quantise the network again",
        )
    return rounded.value
