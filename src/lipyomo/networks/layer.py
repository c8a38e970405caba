"""One layer: an affine map and its units, two-slope or smooth.

A layer computes ``z = W h + b`` (the pre-activation) and then ``left * z`` where ``z < 0`` and
``right * z`` where ``z >= 0``, unit by unit.  Slopes (0, 1) are a ReLU, (a, 1) a LeakyReLU,
(-1, 1) the absolute value and (1, 1) the identity.  All piecewise linear operators are converted to
this form.  Units of a `Curve` apply a smooth activation instead (`lipyomo.networks.activations`); a
layer may have both.  Consecutive affine maps are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arguments import instance, real_numbers
from lipyomo.base.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Matrix,
    dense,
    read_only,
    scaled_rows,
)
from lipyomo.base.errors import NetworkError
from lipyomo.base.numerics.exact import entries_are_exact, product_is_exact, sum_is_exact
from lipyomo.networks import activations
from lipyomo.networks.activations import Activation


def as_matrix(weight: Any, where: str) -> Matrix:
    """Return `weight` as a finite float64 array, or as a CSR array if it is sparse."""
    if sp.issparse(weight):
        if weight.dtype.kind == "c":
            raise NetworkError(f"{where}: the weight must be real numbers, not complex ones")
        matrix = sp.csr_array(weight, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        values = read_only(matrix.data)
        read_only(matrix.indices)
        read_only(matrix.indptr)
    else:
        matrix = np.array(real_numbers(weight, f"{where}: the weight", NetworkError), ndmin=2)
        values = read_only(matrix)
    if matrix.ndim != 2:
        raise NetworkError(
            f"{where}: the weight has {matrix.ndim} axes, expected 2 (units, inputs)"
        )
    if not np.isfinite(values).all():
        raise NetworkError(f"{where}: the weight holds NaN or infinite entries")
    return matrix


def _as_vector(values: object, size: int, where: str, what: str) -> FloatArray:
    """Return `values` as a finite float64 vector of length `size` (scalars are repeated)."""
    vector = real_numbers(values, f"{where}: the {what}", NetworkError).reshape(-1)
    if vector.size == 1 and size != 1:
        vector = np.full(size, vector[0])
    if vector.size != size:
        raise NetworkError(f"{where}: the {what} has {vector.size} entries for {size} units")
    if not np.isfinite(vector).all():
        raise NetworkError(f"{where}: the {what} holds NaN or infinite entries")
    return read_only(vector)


@dataclass(frozen=True, eq=False)
class Curve:
    """The units of a layer that apply one smooth activation.

    Parameters
    ----------
    activation : Activation
    units : array_like of int, shape (k,)
        Indices of the units; sorted, and read-only.

    Raises
    ------
    NetworkError
        If the units are not distinct indices.
    """

    activation: Activation
    units: IntArray

    def __init__(self, activation: Activation, units: npt.ArrayLike) -> None:
        numbers = real_numbers(units, "the units of a curve", NetworkError).reshape(-1)
        found = np.unique(np.where(numbers < 2.0**53, numbers, -1.0)).astype(np.intp)
        if found.size != numbers.size or (found < 0).any() or (found != np.sort(numbers)).any():
            raise NetworkError("the units of a curve must be different indices")
        object.__setattr__(self, "activation", activation)
        object.__setattr__(self, "units", read_only(found))

    def __reduce__(self) -> tuple[type[Curve], tuple[object, ...]]:
        """Pickle and copy by the arguments, so that a copy's units are read-only as well."""
        return Curve, (self.activation, self.units)


def _ordered(curves: Iterable[Curve], units: int) -> tuple[Curve, ...]:
    """Return one curve for each activation, ordered by their first units."""
    instance(curves, Iterable, "the curves", NetworkError, "a sequence of Curve")
    places: dict[Activation, list[IntArray]] = {}
    for curve in curves:
        instance(curve, Curve, "a curve", NetworkError, "a Curve of an activation and its units")
        if curve.units.size:
            places.setdefault(curve.activation, []).append(curve.units)
    whole = [Curve(activation, np.concatenate(parts)) for activation, parts in places.items()]
    taken = np.concatenate([curve.units for curve in whole] or [np.zeros(0, dtype=np.intp)])
    if taken.size and taken.max() >= units:
        raise NetworkError(f"layer: a curve has unit {taken.max()}, the layer has {units} units")
    if np.unique(taken).size != taken.size:
        raise NetworkError("layer: a unit belongs to two curves")
    return tuple(sorted(whole, key=lambda curve: int(curve.units[0])))


def _finite_at(curves: Iterable[Curve], slopes: object, units: int) -> FloatArray:
    """Replace the slopes of smooth units, which may be infinite, by one."""
    found = np.array(np.broadcast_to(np.asarray(slopes, dtype=np.float64), units))
    for curve in curves:
        found[curve.units] = 1.0
    return found


@dataclass(frozen=True, eq=False)
class Layer:
    """An affine map followed by units, each two-slope or smooth.

    Parameters
    ----------
    weight : array_like or sparse array, shape (units, inputs)
        Rows are units.  Sparse input stays sparse (CSR).  All arrays are copied and read-only, so
        that properties of a layer can be cached.
    bias : array_like, shape (units,)
    left, right : array_like, shape (units,), or float
        Slopes below and above the kink at zero.  The default is the identity.  For smooth units
        they are set to the activation's smallest and largest slope, which are infinite if slopes
        are bounded on bounded ranges only, as for squares.
    curves : iterable of Curve, optional
        The smooth units; all other units have two slopes.  A curve of `TwoSlope` is converted to
        slopes.

    Raises
    ------
    NetworkError
        If shapes do not fit, a number is not finite or a unit has two activations.
    """

    weight: Matrix
    bias: FloatArray
    left: FloatArray
    right: FloatArray
    curves: tuple[Curve, ...]

    def __init__(
        self,
        weight: object,
        bias: object,
        left: object = 1.0,
        right: object = 1.0,
        curves: Iterable[Curve] = (),
    ) -> None:
        matrix = as_matrix(weight, "layer")
        units = matrix.shape[0]
        object.__setattr__(self, "weight", matrix)
        object.__setattr__(self, "bias", _as_vector(bias, units, "layer", "bias"))
        found = _ordered(curves, units)
        if any(isinstance(curve.activation.true, activations.Unbounded) for curve in found):
            left, right = (_finite_at(found, slope, units) for slope in (left, right))
        slopes = [
            _as_vector(left, units, "layer", "left slope"),
            _as_vector(right, units, "layer", "right slope"),
        ]
        for side, slope in enumerate(slopes if found else ()):
            limited = np.array(slope)
            for curve in found:
                f = curve.activation
                ends = (f.left, f.right) if isinstance(f, activations.TwoSlope) else f.limits
                limited[curve.units] = ends[side]
            slopes[side] = read_only(limited)
        found = tuple(c for c in found if not isinstance(c.activation, activations.TwoSlope))
        object.__setattr__(self, "left", slopes[0])
        object.__setattr__(self, "right", slopes[1])
        object.__setattr__(self, "curves", found)

    def __reduce__(self) -> tuple[type[Layer], tuple[object, ...]]:
        """Pickle and copy by the arrays, so that a copy's are read-only as well."""
        return Layer, (self.weight, self.bias, self.left, self.right, self.curves)

    def with_map(self, weight: object, bias: object) -> Layer:
        """Return the layer with another affine map and the same units."""
        return Layer(weight, bias, self.left, self.right, self.curves)

    def selected(self, units: IntArray) -> Layer:
        """Return the layer of some of the units, in the order of `units` (k,)."""
        place = np.full(self.units, -1)
        place[units] = np.arange(len(units))
        curves = [Curve(curve.activation, place[curve.units]) for curve in self.restricted(units)]
        weight, bias = self.weight[units], self.bias[units]
        return Layer(weight, bias, self.left[units], self.right[units], curves)

    def restricted(self, units: IntArray) -> list[Curve]:
        """Return the curves restricted to `units`, with the numbers of this layer."""
        return [Curve(c.activation, np.intersect1d(c.units, units)) for c in self.curves]

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.weight.shape[0])

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return int(self.weight.shape[1])

    @cached_property
    def curved(self) -> BoolArray:
        """Which units are smooth, shape (units,)."""
        found = np.zeros(self.units, dtype=bool)
        for curve in self.curves:
            found[curve.units] = True
        return read_only(found)

    @cached_property
    def kinked(self) -> BoolArray:
        """Which units have two different slopes, shape (units,); smooth ones have not."""
        return read_only(np.asarray((self.left != self.right) & ~self.curved))

    @cached_property
    def bent(self) -> BoolArray:
        """Which units are not linear: kinked or smooth; shape (units,)."""
        return read_only(self.kinked | self.curved)

    @property
    def needs_ranges(self) -> bool:
        """Whether any unit's slope is bounded on bounded ranges of its argument only."""
        kinds = (curve.activation.true for curve in self.curves)
        return any(isinstance(kind, activations.Unbounded) for kind in kinds)

    @property
    def is_affine(self) -> bool:
        """Whether every unit is an identity (slopes one)."""
        return not self.curves and bool(np.all(self.left == 1.0) and np.all(self.right == 1.0))

    @cached_property
    def steepest(self) -> FloatArray:
        """The larger absolute value of `left` and `right`, shape (units,)."""
        return read_only(np.maximum(np.abs(self.left), np.abs(self.right)))

    @cached_property
    def sizes(self) -> Matrix:
        """Absolute values of the weight; a sparse one shares its index arrays."""
        if isinstance(self.weight, np.ndarray):
            return read_only(np.abs(self.weight))
        places = self.weight.indices, self.weight.indptr
        data = read_only(np.abs(self.weight.data))
        return sp.csr_array((data, *places), shape=self.weight.shape)

    @cached_property
    def row_sums(self) -> FloatArray:
        """Sums of the absolute weights of each unit, shape (units,)."""
        return read_only(np.asarray(self.sizes.sum(axis=1)).reshape(-1))

    @cached_property
    def dense_weight(self) -> FloatArray:
        """The weight as a dense array, shape (units, inputs)."""
        return read_only(dense(self.weight))

    def preactivation(self, h: FloatArray) -> FloatArray:
        """``W h + b`` for points `h` of shape (..., inputs)."""
        if isinstance(self.weight, np.ndarray):
            return np.asarray(h @ self.weight.T + self.bias)
        flat = h.reshape(-1, self.inputs)
        return np.asarray((self.weight @ flat.T).T + self.bias).reshape(*h.shape[:-1], self.units)

    def activate(self, z: FloatArray) -> FloatArray:
        """Apply the units to pre-activations `z` of shape (..., units)."""
        with np.errstate(invalid="ignore"):  # slopes of curves may be infinite
            found = np.where(z < 0, self.left, self.right) * z
        for curve in self.curves:
            found[..., curve.units] = curve.activation.value(z[..., curve.units])
        return found

    def slopes(self, on: BoolArray) -> FloatArray:
        """Return the slopes of the units, right-hand ones where `on` is True.

        Raises
        ------
        NetworkError
            If there are smooth units, which have more than two slopes.
        """
        self.check_two_slope()
        return np.where(on, self.right, self.left)

    def slopes_at(self, z: FloatArray) -> FloatArray:
        """Slopes of the units at pre-activations `z` of shape (..., units), of any kind."""
        found = np.where(z > 0, self.right, self.left)
        for curve in self.curves:
            found[..., curve.units] = curve.activation.slope(z[..., curve.units])
        return found

    def check_two_slope(self) -> None:
        """Raise `NetworkError` if there are smooth units, for code that assumes two slopes."""
        if self.curves:
            names = ", ".join(curve.activation.name for curve in self.curves)
            raise NetworkError(
                f"a layer has smooth units ({names}), which have no activation pattern and no "
                "linear pieces.  Remedy: jacobian_at and gradients take points of any network"
            )


Value = TypeVar("Value")


def remembered(function: Callable[[Layer], Value]) -> Callable[[Layer], Value]:
    """Cache a function of a layer for the lifetime of the layer."""
    known: WeakKeyDictionary[Layer, Value] = WeakKeyDictionary()

    @wraps(function)
    def found(layer: Layer) -> Value:
        value = known.get(layer)
        if value is None:
            value = known[layer] = function(layer)
        return value

    return found


def _normalised(layer: Layer, rounding: bool) -> list[Layer]:
    """Replace units that are constant or have no kink by identities.

    Their slopes are multiplied into their weights, or into an additional layer if that would round.
    Smooth units are kept: the value of a constant one is not exact in float64.
    """
    slopes = np.where(layer.bias > 0, layer.right, layer.left)
    slopes = np.where(layer.curved, 1.0, slopes)  # those of curves may be infinite
    kinked = layer.kinked & ~((layer.row_sums == 0) & entries_are_exact(slopes, layer.bias))
    bent = kinked | layer.curved
    scale = np.where(bent, 1.0, slopes)
    if np.all(scale == 1.0) and np.array_equal(kinked, layer.kinked):
        return [layer]
    left, right = (np.where(bent, slope, 1.0) for slope in (layer.left, layer.right))
    factor = sp.csr_array(sp.diags_array(scale))
    both = sp.hstack([sp.csr_array(layer.weight), sp.csr_array(layer.bias[:, None])])
    if rounding or product_is_exact(factor, both):
        weight = scaled_rows(layer.weight, scale)
        return [Layer(weight, scale * layer.bias, left, right, layer.curves)]
    units = Layer(layer.weight, layer.bias, left, right, layer.curves)
    return [units, Layer(factor, np.zeros(layer.units))]


def composed(layer: Layer, before: Layer, rounding: bool) -> Layer | None:
    """Compose `layer` with the affine layer `before`; None if that would round."""
    shift = np.asarray(layer.weight @ before.bias)
    if not rounding and not (
        product_is_exact(layer.weight, before.weight)
        and product_is_exact(layer.weight, before.bias[:, None])
        and sum_is_exact(shift, layer.bias)
    ):
        return None
    return layer.with_map(layer.weight @ before.weight, shift + layer.bias)


def fused_layers(
    layers: Sequence[Layer], rounding: bool = False
) -> tuple[list[Layer], dict[int, int]]:
    """Fuse layers as `Network.fused`; also return the new positions of layers that are not affine.

    A layer that is not affine keeps all its units, in their order.
    """
    chain: list[Layer] = []
    places: dict[int, int] = {}
    for i, layer in enumerate(layers):
        for part in _normalised(layer, rounding):
            joined = None
            if chain and chain[-1].is_affine:
                joined = composed(part, chain[-1], rounding)
            if joined is None:
                chain.append(part)
            else:
                chain[-1] = joined
            if not part.is_affine:
                places[i] = len(chain) - 1
    return chain, places


def square_pairs(layer: Layer, after: FloatArray) -> Sequence[tuple[int, int]]:
    """Return pairs of units (p, q) that are the two squares of a product.

    Parameters
    ----------
    layer : Layer
    after : ndarray, shape (m, n)
        The next weight, in which their columns are the negatives of each other.
    """
    sides: list[list[int]] = [[], []]
    for curve in layer.curves:
        kind = curve.activation.true
        if isinstance(kind, activations.Half):
            sides[kind.difference] += curve.units.tolist()
    sums, differences = (sorted(side) for side in sides)
    partners: dict[bytes, list[int]] = {}
    for q in differences:
        partners.setdefault((0.0 - after[:, q]).tobytes(), []).append(q)
    rank = {q: k for k, q in enumerate(differences)}
    found = []
    for k, p in enumerate(sums):
        own = partners.get((0.0 + after[:, p]).tobytes())
        if own:  # usually both have the same order
            q = min(own, key=lambda unit: abs(rank[unit] - k))
            own.remove(q)
            found.append((p, q))
    return found
