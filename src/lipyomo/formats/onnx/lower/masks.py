"""Masked scores of a softmax: entries that are minus infinity.

They are constants with weight zero in a softmax.  Tensors with such entries may only be read by
operators that move entries, add to them or test for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray
from lipyomo.formats.onnx.graph import Array, GraphNode
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor

MASKED = {
    "Add", "Where", "Softmax", "IsNaN", "IsInf", "Identity", "Reshape", "Flatten", "Squeeze",
    "Unsqueeze", "Transpose", "Expand", "Slice", "Gather", "Concat", "Split", "Tile", "Cast",
    "Attention",
}  # fmt: skip
"""Operators that may read tensors with masked entries."""


def absent(x: Value) -> BoolArray:
    """Return which entries are minus infinity, in the shape of the tensor."""
    values = x.offset.reshape(x.shape) if isinstance(x, Tensor) else np.asarray(x)
    return np.isneginf(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)


def masked(x: Tensor, missing: BoolArray) -> Tensor:
    """Set some entries of a tensor (broadcast to it) to minus infinity."""
    out = np.broadcast_to(missing, x.shape).reshape(-1)
    kept = sp.csr_array(sp.diags_array((~out).astype(np.float64)) @ x.matrix)
    kept.eliminate_zeros()
    return Tensor(kept, np.where(out, -np.inf, x.offset), x.shape, x.carrier)


def unmasked(x: Value) -> Value:
    """Replace entries that are minus infinity by zeros."""
    missing = absent(x)
    if not missing.any():
        return x
    if isinstance(x, Tensor):
        return replace(x, offset=np.where(missing.reshape(-1), 0.0, x.offset))
    return np.where(missing, 0.0, x)


def check_masks(node: GraphNode, arguments: Sequence[object]) -> None:
    """Refuse masked signals in operators other than those in `MASKED`."""
    for name, value in zip(node.inputs, arguments, strict=True):
        if isinstance(value, Tensor) and not _takes(node, value.offset):
            raise node.refuse(
                f"entries of '{name}' are masked (minus infinity), or have only such scores",
                "let masks be read by a softmax alone, which leaves a score in each row",
            )


def check_finite(node: GraphNode, arguments: Sequence[Value | None]) -> None:
    """Refuse constants that are not finite, except masks.

    Limits of Clip may be infinite.
    """
    if node.op_type == "Clip":
        return
    for name, value in zip(node.inputs, arguments, strict=True):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not _takes(node, value):
            raise node.refuse(
                f"the weights '{name}' hold infinite entries or NaN",
                "train or export the network again",
            )


def _takes(node: GraphNode, numbers: Array) -> bool:
    """Return whether a node may read these numbers: finite ones, or those of a mask."""
    if np.isfinite(numbers).all():
        return True
    asks = node.op_type in ("Where", "IsNaN")
    known = np.isfinite(numbers) | np.isneginf(numbers) | asks
    return node.op_type in MASKED and bool(known.all())


@lowers("IsNaN")
def is_nan(call: Call) -> Value:
    """False, except in rows of a softmax without scores."""
    x = call.tensor(0)
    return np.isnan(x.offset).reshape(x.shape)


@lowers("IsInf")
def is_inf(call: Call) -> Value:
    """True where scores are masked."""
    x = call.tensor(0)
    return np.isneginf(x.offset).reshape(x.shape) & bool(call.node.integer("detect_negative", 1))
