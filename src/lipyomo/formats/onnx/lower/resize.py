"""Resizing: every entry is a weighted sum of nearby entries, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.formats.onnx.graph import GraphNode
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.budget import ENTRY, NUMBER, budget


@lowers("Resize", "Upsample")
def resize(call: Call) -> Value:
    """Change lengths of axes: `nearest` moves entries, `linear` and `cubic` average neighbours."""
    node, x = call.node, call.tensor(0)
    lengths, scales = _lengths(call, x.shape)
    if not all(0 < scale < math.inf for scale in scales.values()) or 0 in lengths.values():
        raise ValueError(f"lengths {list(lengths.values())} of an axis")
    made = math.prod(map(float, lengths.values()))
    budget().charge(ENTRY * made, f"a tensor of {made:,.0f} entries")
    mode = node.text("mode", "nearest")
    if node.integer("antialias", 0) and min(scales.values(), default=1.0) < 1.0:
        raise node.refuse("it smooths while it shrinks (antialias)", "export it with antialias=0")
    for axis, length in lengths.items():
        scale = scales[axis]
        if length == x.shape[axis] and scale == 1.0:
            continue
        places = _places(node, x.shape[axis], length, scale)
        if mode == "nearest":
            x = x.take(np.take(x.index, _nearest(node, places, x.shape[axis]), axis=axis))
        elif mode in ("linear", "cubic"):
            x = _weighed(x, axis, *_neighbours(node, mode, places, x.shape[axis]))
        else:
            raise node.refuse(f"mode '{mode}' is not supported", "use nearest, linear or cubic")
    return x


def _lengths(call: Call, shape: tuple[int, ...]) -> tuple[dict[int, int], dict[int, float]]:
    """Return the new length of each axis, and its scale."""
    node = call.node
    rank = len(shape)
    axes = [axis % rank for axis in node.integers("axes") or range(rank)]
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.refuse("it keeps the aspect ratio", "export it with fixed sizes")
    sizes = call.constant(3, "the list of sizes") if call.optional(3) is not None else np.zeros(0)
    if sizes.size:
        lengths = dict(zip(axes, map(int, sizes), strict=True))
        return lengths, {axis: length / max(shape[axis], 1) for axis, length in lengths.items()}
    if node.op_type == "Upsample" and node.version < 9:
        given = node.numbers("scales")
    else:
        old = node.op_type == "Upsample" or node.version < 11
        given = call.real(1 if old else 2, "the list of scales")
    scales = dict(zip(axes, map(float, given), strict=True))
    finite = {axis: scale for axis, scale in scales.items() if math.isfinite(scale)}
    return {axis: math.floor(shape[axis] * scale) for axis, scale in finite.items()}, scales


def _places(node: GraphNode, old: int, new: int, scale: float) -> FloatArray:
    """Return the coordinates of the new entries of an axis in the old one."""
    at = np.arange(new, dtype=np.float64)
    early = node.op_type == "Upsample" or node.version < 11
    mode = node.text("coordinate_transformation_mode", "asymmetric" if early else "half_pixel")
    if mode == "asymmetric":
        return np.asarray(at / scale)
    if mode == "align_corners":
        return np.asarray(at * ((old - 1) / (new - 1) if new > 1 else 0.0))
    if mode == "tf_half_pixel_for_nn":
        return np.asarray((at + 0.5) / scale)
    middle = (at + 0.5) / scale - 0.5
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and new > 1):
        return np.asarray(middle)
    if mode == "pytorch_half_pixel":
        return np.zeros(new)
    if mode == "half_pixel_symmetric":
        return np.asarray(middle + old / 2 * (1.0 - new / (scale * old)))
    raise node.refuse(f"places of the kind '{mode}' are not supported", "use half_pixel")


def _nearest(node: GraphNode, places: FloatArray, old: int) -> IntArray:
    """Return the nearest old entry of each coordinate."""
    early = node.op_type == "Upsample" or node.version < 11
    mode = node.text("nearest_mode", "floor" if early else "round_prefer_floor")
    if mode not in _ROUNDED:
        raise node.refuse(f"nearest_mode '{mode}' is unknown", "use round_prefer_floor")
    return np.asarray(np.clip(_ROUNDED[mode](places), 0, old - 1).astype(np.intp))


_ROUNDED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda place: np.asarray(np.ceil(place - 0.5)),
    "round_prefer_ceil": lambda place: np.asarray(np.floor(place + 0.5)),
}


def _neighbours(
    node: GraphNode, mode: str, places: FloatArray, old: int
) -> tuple[IntArray, FloatArray, int]:
    """Return the old entries around each coordinate, their weights, and the old length."""
    first = np.floor(places)
    part = places - first
    if mode == "linear":
        steps, weights = np.arange(2), np.stack([1.0 - part, part], axis=1)
    else:
        a = node.number("cubic_coeff_a", -0.75)
        steps = np.arange(-1, 3)
        away = np.abs(part[:, None] - steps)
        near = ((a + 2) * away - (a + 3)) * away * away + 1
        far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
        weights = np.where(away <= 1.0, near, far)
    found = first.astype(np.intp)[:, None] + steps
    if node.integer("exclude_outside", 0):
        weights = np.where((found < 0) | (found >= old), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(found, 0, old - 1), weights, old


def _weighed(x: Tensor, axis: int, places: IntArray, weights: FloatArray, old: int) -> Tensor:
    """Return weighted sums of entries along one axis."""
    new = len(places)
    shape = (*x.shape[:axis], new, *x.shape[axis + 1 :])
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    budget().charge(4.0 * NUMBER * before * after * weights.size, "the weights of resizing")
    rows = np.repeat(np.arange(new), places.shape[1])
    one = sp.csr_array((weights.reshape(-1), (rows, places.reshape(-1))), shape=(new, old))
    one.sum_duplicates()
    one.eliminate_zeros()
    inner = sp.kron(one, sp.eye_array(after), format="csr")
    operator = sp.csr_array(sp.kron(sp.eye_array(before), inner, format="csr"))
    return x.apply(operator, shape)
