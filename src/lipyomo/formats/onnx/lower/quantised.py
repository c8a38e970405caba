"""QuantizeLinear and DequantizeLinear: weights are folded, rounded signals become new inputs.

A signal v that is quantised and dequantised with step s and zero point z is

    ``r = s (clip(round(v / s) + z) - z)``,

a multiple of s between ``s (least - z)`` and ``s (most - z)``.  As rounding commutes with clipping
to whole numbers, r is ``clip(v + s e)`` to these two, for some e in [-1/2, 1/2]: with e as a
further input, the graph becomes a network whose values at a point hold that of the quantised one.
With r itself as a further input, it becomes one that is evaluated at a given rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
"""The least and the largest number of each type to which signals are quantised."""

KEEPING = {
    "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather",
    "Split", "Concat", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Relu", "MaxPool",
    "GlobalMaxPool", "ReduceMax", "ReduceMin",
}  # fmt: skip
"""Operators whose outputs are entries of their inputs, or zero, a multiple of all steps."""


@dataclass(frozen=True, eq=False)
class StepGrid:
    """Multiples ``low s, ..., high s`` of a step s, as float64 numbers without rounding.

    Attributes
    ----------
    step : ndarray
        One number, or an array that broadcasts to the tensor.
    low, high : ndarray
        Likewise: whole numbers.
    """

    step: FloatArray
    low: FloatArray
    high: FloatArray

    def is_same(self, other: StepGrid) -> bool:
        """Whether two grids are equal number by number."""
        pairs = zip(*(vars(grid).values() for grid in (self, other)), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Rounded:
    """A signal as whole numbers: nothing but DequantizeLinear reads it.

    Attributes
    ----------
    value : Tensor
        What it is once it is dequantised.
    grid : StepGrid
    """

    value: Tensor
    grid: StepGrid

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return self.value.shape

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.value.nbytes


@dataclass(frozen=True, eq=False)
class Quantiser:
    """A node that rounds a signal.

    Attributes
    ----------
    signal, made : str
        The tensors that it reads and makes.
    before : Tensor
        The signal.
    step, low, high : ndarray, shape (entries,)
        Its grid, an entry each.
    zero : ndarray, shape (entries,)
        What is added to multiples of the step in the tensor that it makes.
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
    """Those of a graph in order, while it is lowered.

    Parameters
    ----------
    held : bool
        Whether rounded signals are inputs, rather than the errors of rounding.
    """

    held: bool
    met: list[Quantiser] = field(default_factory=list)


def _parameters(call: Call) -> tuple[FloatArray, Array, str]:
    """Steps and zero points, as they broadcast to the tensor, and the type of whole numbers."""
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
    """Parameters of a whole tensor, of its slices along an axis, or of blocks along it."""
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
    """The grid of a node, and its zero points."""
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
    """A tensor in whole numbers: constants are computed as in float32.

    Parameters
    ----------
    call : Call
    quantisers : Quantisers or None
        None if signals are not to be rounded.
    known : StepGrid or None
        Of which all entries are known to be multiples already.

    Raises
    ------
    ImportRefused
        If a signal is rounded where it must not be, or to numbers that are no multiples of a step.
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
    """``(q - z) s``; of constants as float32 numbers, which is what onnxruntime computes.

    Parameters
    ----------
    call : Call
    rounded : Rounded or None
        The first argument, where that is a signal.
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
