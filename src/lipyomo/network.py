"""The one small form of a network: a chain of affine maps and of units, two-slope or smooth.

A layer computes ``z = W h + b`` (the pre-activation) and then ``left * z`` where ``z < 0`` and
``right * z`` where ``z >= 0``, unit by unit.  Slopes (0, 1) are a ReLU, (a, 1) a LeakyReLU,
(-1, 1) the absolute value and (1, 1) the identity.  Everything piecewise linear lowers to this.
Units of a `Curve` apply a smooth activation instead (`lipyomo.activations`); a layer may have both.

Shapes: d inputs, m outputs, n_i units in hidden layer i.  Networks are dimensionless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import is_
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo import activations
from lipyomo.activations import Activation
from lipyomo.arguments import instance, real_numbers, whole_number
from lipyomo.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Matrix,
    Pattern,
    dense,
    read_only,
    scaled_rows,
)
from lipyomo.errors import LipyomoError, NetworkError
from lipyomo.numerics.exactness import entries_are_exact, product_is_exact, sum_is_exact

__all__ = [
    "BoolArray",
    "Curve",
    "FloatArray",
    "Layer",
    "Matrix",
    "Network",
    "Pattern",
    "check_network",
]


def _as_matrix(weight: Any, where: str) -> Matrix:
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
        If the units are no indices, or one comes twice.
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
        """Pickle and copy by the parts: a copy's units are read-only as well."""
        return Curve, (self.activation, self.units)


def _ordered(curves: Iterable[Curve], units: int) -> tuple[Curve, ...]:
    """One curve an activation, in the order of their first units."""
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


@dataclass(frozen=True, eq=False)
class Layer:
    """An affine map followed by units, each two-slope or smooth.

    Parameters
    ----------
    weight : array_like or sparse array, shape (units, inputs)
        Rows are units.  Sparse input stays sparse (CSR).  All arrays are copied, and read-only:
        what is known of a layer stays true of it.
    bias : array_like, shape (units,)
    left, right : array_like, shape (units,), or float
        Slopes below and above the kink at zero.  The default is the identity.  At smooth units
        they are the activation's least and largest slope, whatever is given.
    curves : iterable of Curve, optional
        The smooth units; those of no curve have two slopes.

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
        matrix = _as_matrix(weight, "layer")
        units = matrix.shape[0]
        object.__setattr__(self, "weight", matrix)
        object.__setattr__(self, "bias", _as_vector(bias, units, "layer", "bias"))
        slopes = [
            _as_vector(left, units, "layer", "left slope"),
            _as_vector(right, units, "layer", "right slope"),
        ]
        found = _ordered(curves, units)
        for side, slope in enumerate(slopes if found else ()):
            limited = np.array(slope)
            for curve in found:
                limited[curve.units] = curve.activation.limits[side]
            slopes[side] = read_only(limited)
        object.__setattr__(self, "left", slopes[0])
        object.__setattr__(self, "right", slopes[1])
        object.__setattr__(self, "curves", found)

    def __reduce__(self) -> tuple[type[Layer], tuple[object, ...]]:
        """Pickle and copy by the arrays: a copy's are read-only as well."""
        return Layer, (self.weight, self.bias, self.left, self.right, self.curves)

    def with_map(self, weight: object, bias: object) -> Layer:
        """The same units behind another affine map."""
        return Layer(weight, bias, self.left, self.right, self.curves)

    def selected(self, units: IntArray) -> Layer:
        """The layer of some of the units, in the order of `units` (k,)."""
        place = np.full(self.units, -1)
        place[units] = np.arange(len(units))
        curves = [Curve(curve.activation, place[curve.units]) for curve in self.restricted(units)]
        weight, bias = self.weight[units], self.bias[units]
        return Layer(weight, bias, self.left[units], self.right[units], curves)

    def restricted(self, units: IntArray) -> list[Curve]:
        """The curves without the units that are not among `units`, numbered as here."""
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
    def is_affine(self) -> bool:
        """Whether every unit is an identity (slopes one)."""
        return not self.curves and bool(np.all(self.left == 1.0) and np.all(self.right == 1.0))

    @cached_property
    def sizes(self) -> Matrix:
        """Absolute values of the weight; sparse ones share its places."""
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
        found = np.where(z < 0, self.left, self.right) * z
        for curve in self.curves:
            found[..., curve.units] = curve.activation.value(z[..., curve.units])
        return found

    def slopes(self, on: BoolArray) -> FloatArray:
        """Slopes of the units when `on` says which are on their right-hand side.

        Raises
        ------
        NetworkError
            If units are smooth: their slopes are no matter of sides.
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
        """Raise `NetworkError` if units are smooth: what asks reads their slopes as two sides."""
        if self.curves:
            names = ", ".join(curve.activation.name for curve in self.curves)
            raise NetworkError(
                f"a layer has smooth units ({names}), which have no activation pattern and no "
                "linear pieces.  Remedy: jacobian_at and gradients take points of any network"
            )


def _normalised(layer: Layer, rounding: bool) -> list[Layer]:
    """`layer` with identities for units that are constant or have no kink.

    Their slopes move into their weights.  Where that would round, they become a layer of their own.
    Smooth units stay as they are: the value of a constant one is no float64 number.
    """
    slopes = np.where(layer.bias > 0, layer.right, layer.left)
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


def _shape_of(shape: Sequence[int] | None, size: int, what: str) -> tuple[int, ...]:
    """A shape as a tuple; that of a vector by default."""
    instance(shape, (Iterable, NoneType), "the shape", NetworkError, "a sequence of numbers")
    asked = (size,) if shape is None else shape
    found = tuple(whole_number(n, "an entry of the shape", NetworkError) for n in asked)
    if math.prod(found) != size:
        raise NetworkError(f"the shape {found} does not hold the network's {size} {what}")
    return found


def _composed(layer: Layer, before: Layer, rounding: bool) -> Layer | None:
    """`layer` after the affine layer `before` as one; None if that would round."""
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
    """Layers as `Network.fused` puts them together, and where those with kinks are among them.

    A layer that keeps a kink keeps all its units, in their order.
    """
    chain: list[Layer] = []
    places: dict[int, int] = {}
    for i, layer in enumerate(layers):
        for part in _normalised(layer, rounding):
            composed = None
            if chain and chain[-1].is_affine:
                composed = _composed(part, chain[-1], rounding)
            if composed is None:
                chain.append(part)
            else:
                chain[-1] = composed
            if not part.is_affine:
                places[i] = len(chain) - 1
    return chain, places


def _smooth_kind(given: str | Activation, slope: float) -> Activation | None:
    """The activation that is asked for; None for ReLU units."""
    if given == "relu":
        return None
    if slope != 0.0:
        raise NetworkError(f"a slope of {slope} is for relu units.  Remedy: leave it out")
    if isinstance(given, Activation):
        return given
    names = activations.activations()
    if not isinstance(given, str) or given not in names:
        known = ", ".join(("relu", *names))
        raise NetworkError(f"unknown activation {given!r}.  Remedy: use one of {known}")
    return activations.activation(given)


class Network:
    """A network ``f : R^d -> R^m`` in the one form that all algorithms know.

    The last layer is always affine (an identity layer is appended if the last one has units), so
    that ``network.hidden`` holds all units and ``network.head`` maps the last ones to the outputs.

    Parameters
    ----------
    layers : iterable of Layer
    name : str, optional
        Shown in summaries.
    input_shape, output_shape : sequence of int, optional
        Of one point and its value where these are no vectors (images, say); row-major.

    Raises
    ------
    NetworkError
        If there is no layer, the layers do not chain, or a shape is of another size.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        name: str = "network",
        input_shape: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
    ) -> None:
        remedy = "give a sequence of Layer, or use Network.from_arrays"
        instance(layers, Iterable, "the layers", NetworkError, remedy)
        chain = list(layers)
        for position, layer in enumerate(chain):
            instance(layer, Layer, f"layer {position}", NetworkError, remedy)
        if not chain:
            raise NetworkError("a network needs at least one layer")
        for position, (first, second) in enumerate(pairwise(chain)):
            if first.units != second.inputs:
                raise NetworkError(
                    f"layer {position} has {first.units} units, but layer {position + 1} "
                    f"takes {second.inputs} inputs"
                )
        if not chain[-1].is_affine:
            chain.append(Layer(np.eye(chain[-1].units), np.zeros(chain[-1].units)))
        self.layers: tuple[Layer, ...] = tuple(chain)
        self.name = name
        self.input_shape = _shape_of(input_shape, self.input_dim, "inputs")
        self.output_shape = _shape_of(output_shape, self.output_dim, "outputs")

    @classmethod
    def from_arrays(
        cls,
        weights: Sequence[object],
        biases: Sequence[object] | None = None,
        slope: float = 0.0,
        name: str = "network",
        activation: str | Activation = "relu",
    ) -> Network:
        """Build a network with units of one kind from weight matrices and bias vectors.

        Parameters
        ----------
        weights : sequence of array_like, shapes (n_1, d), (n_2, n_1), ..., (m, n_L)
        biases : sequence of array_like, optional
            Zero when left out.
        slope : float, optional
            Slope of ReLU units below zero.
        name : str, optional
        activation : str or Activation, optional
            Of the hidden units: ``relu``, or a name of `lipyomo.activations.activations`, such as
            ``tanh``.

        Raises
        ------
        NetworkError
            If shapes do not fit or a number is not finite, the activation is unknown, or a slope
            is given for another one than relu.
        """
        kind = _smooth_kind(activation, slope)
        instance(weights, Iterable, "the weights", NetworkError, "a list of matrices")
        matrices = [_as_matrix(weight, f"weight {i}") for i, weight in enumerate(weights)]
        if biases is None:
            biases = [np.zeros(matrix.shape[0]) for matrix in matrices]
        instance(biases, Sized, "the biases", NetworkError, "a list of vectors")
        if len(biases) != len(matrices):
            raise NetworkError(f"{len(matrices)} weights, but {len(biases)} biases were given")
        if not matrices:
            raise NetworkError("a network needs at least one layer")
        *hidden, last = zip(matrices, biases, strict=True)
        if kind is None:
            layers = [Layer(matrix, bias, slope, 1.0) for matrix, bias in hidden]
        else:
            units = (range(matrix.shape[0]) for matrix, _ in hidden)
            curves = (Curve(kind, every) for every in units)
            layers = [Layer(*pair, curves=[c]) for pair, c in zip(hidden, curves, strict=True)]
        return cls([*layers, Layer(*last)], name)

    # -- shape ---------------------------------------------------------------------------------

    @property
    def hidden(self) -> tuple[Layer, ...]:
        """All layers but the affine last one."""
        return self.layers[:-1]

    @property
    def head(self) -> Layer:
        """The affine last layer."""
        return self.layers[-1]

    @property
    def input_dim(self) -> int:
        """Number of inputs d."""
        return self.layers[0].inputs

    @property
    def output_dim(self) -> int:
        """Number of outputs m."""
        return self.layers[-1].units

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths (d, n_1, ..., n_L, m)."""
        return (self.input_dim, *(layer.units for layer in self.layers))

    @property
    def linked(self) -> BoolArray:
        """Which outputs any input reaches through weights and slopes that are not zero, (m,)."""
        found = np.ones(self.input_dim, dtype=np.float64)
        for layer in self.layers:
            steep = (layer.left != 0) | (layer.right != 0) | layer.curved
            found = (steep & (np.asarray(layer.sizes @ found) > 0)).astype(np.float64)
        return found > 0

    @property
    def kinked_units(self) -> int:
        """Number of hidden units with two different slopes; smooth ones do not count."""
        return sum(int(layer.kinked.sum()) for layer in self.hidden)

    @property
    def bent_units(self) -> int:
        """Number of hidden units that are not linear: kinked or smooth."""
        return sum(int(layer.bent.sum()) for layer in self.hidden)

    @property
    def smooth(self) -> bool:
        """Whether any unit is smooth: the network has no activation patterns then."""
        return any(layer.curves for layer in self.layers)

    @property
    def activations(self) -> dict[str, int]:
        """Names of the smooth units' activations, each with its number of units."""
        found: dict[str, int] = {}
        for curve in (curve for layer in self.hidden for curve in layer.curves):
            name = curve.activation.name
            found[name] = found.get(name, 0) + curve.units.size
        return found

    def describe(self) -> str:
        """Such as ``4-8-8-3, 16 units``: inputs, units of each layer that has any, outputs.

        Layers that only keep the import exact, and units that only pass a value on, do not count.
        Smooth units are named: ``2-16-16-1, 32 units (tanh)``, or ``(16 tanh, 16 two-slope)``.
        """
        counts = filter(None, (int(layer.bent.sum()) for layer in self.hidden))
        shown = [str(n) for n in (self.input_dim, *counts, self.output_dim)]
        if len(shown) > 12:
            shown[5:-5] = ["..."]
        kinds = self.activations
        if kinds and self.kinked_units:
            kinds["two-slope"] = self.kinked_units
        names = list(kinds) if len(kinds) == 1 else [f"{n} {name}" for name, n in kinds.items()]
        kind = f" ({', '.join(names)})" if names else ""
        return f"{'-'.join(shown)}, {self.bent_units} units{kind}"

    def __repr__(self) -> str:
        return f"Network({self.name!r}, {self.describe()})"

    # -- evaluation ----------------------------------------------------------------------------

    def forward(self, x: npt.ArrayLike) -> FloatArray:
        """Values ``f(x)``; `x` of shape (d,) or (n, d) gives (m,) or (n, m)."""
        h = self._points(x)
        for layer in self.layers:
            h = layer.activate(layer.preactivation(h))
        return h

    def preactivations(self, x: npt.ArrayLike) -> list[FloatArray]:
        """Pre-activations of each hidden layer at `x`, shapes (..., n_i)."""
        h, found = self._points(x), []
        for layer in self.hidden:
            z = layer.preactivation(h)
            found.append(z)
            h = layer.activate(z)
        return found

    def pattern(self, x: npt.ArrayLike) -> Pattern:
        """Which hidden units are on their right-hand slope (z > 0) at `x`; shapes (..., n_i).

        Raises
        ------
        NetworkError
            If the network has smooth units.
        """
        for layer in self.hidden:
            layer.check_two_slope()
        return tuple(z > 0 for z in self.preactivations(x))

    def check_pattern(self, pattern: Pattern) -> None:
        """Raise `NetworkError` if these are not one array of shape (n_i,) a hidden layer."""
        instance(pattern, Iterable, "the pattern", NetworkError, "a boolean array a hidden layer")
        shapes = [np.shape(on) for on in pattern]
        if shapes != [(layer.units,) for layer in self.hidden]:
            raise NetworkError(
                f"the pattern has shapes {shapes}, expected one boolean array a hidden layer, of "
                f"lengths {[layer.units for layer in self.hidden]}"
            )

    def jacobian(self, pattern: Pattern) -> FloatArray:
        """Jacobian (m, d) of the affine piece that `pattern` (arrays of shape (n_i,)) selects.

        Raises
        ------
        NetworkError
            If the pattern does not fit, or the network has smooth units.
        """
        self.check_pattern(pattern)
        slopes = [layer.slopes(on) for layer, on in zip(self.hidden, pattern, strict=True)]
        return self._chained(self.head.dense_weight, slopes)

    def jacobian_at(self, x: npt.ArrayLike) -> FloatArray:
        """Jacobian (m, d) at the point `x` of shape (d,), with units of any kind; in float64.

        At a kink the slope is the left-hand one; where an activation's derivative jumps it is the
        right-hand one.
        """
        point = self._points(x).reshape(self.input_dim)
        return self._chained(self.head.dense_weight, self._slopes(point))

    def gradients(self, x: npt.ArrayLike, functionals: npt.ArrayLike) -> FloatArray:
        """Gradients of ``c . f`` at the points `x`, with units of any kind.

        Parameters
        ----------
        x : array_like, shape (n, d)
        functionals : array_like, shape (m,) for one functional or (n, m) for one a point

        Returns
        -------
        ndarray, shape (n, d)
        """
        points = np.atleast_2d(self._points(x))
        rows = np.atleast_2d(real_numbers(functionals, "the functionals", NetworkError, copy=False))
        if rows.shape not in ((1, self.output_dim), (len(points), self.output_dim)):
            raise NetworkError(
                f"the functionals have shape {np.shape(functionals)}, expected "
                f"({self.output_dim},) or ({len(points)}, {self.output_dim})"
            )
        g = np.broadcast_to(rows, (len(points), self.output_dim)) @ self.head.weight
        return self._chained(np.asarray(g), self._slopes(points))

    def _slopes(self, points: FloatArray) -> list[FloatArray]:
        """Slopes of the hidden units at points of shape (..., d), shapes (..., n_i)."""
        found = zip(self.hidden, self.preactivations(points), strict=True)
        return [layer.slopes_at(z) for layer, z in found]

    def _chained(self, rows: FloatArray, slopes: Sequence[FloatArray]) -> FloatArray:
        """Rows (n, n_L) of functionals of the last units, pulled back to the inputs (n, d)."""
        for layer, slope in zip(reversed(self.hidden), reversed(slopes), strict=True):
            rows = (rows * slope) @ layer.weight
        return np.asarray(rows)

    # -- derived networks ----------------------------------------------------------------------

    def with_layers(self, layers: Sequence[Layer]) -> Network:
        """A network of other layers with this one's name and shapes; itself if they are its own."""
        if len(layers) == len(self.layers) and all(map(is_, layers, self.layers)):
            return self
        return Network(layers, self.name, self.input_shape, self.output_shape)

    def with_functional(self, functionals: npt.ArrayLike) -> Network:
        """The network ``C f`` for `functionals` C of shape (k, m) or (m,)."""
        rows = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
        if rows.shape[1] != self.output_dim:
            raise NetworkError(
                f"the functional has {rows.shape[1]} entries, the network has "
                f"{self.output_dim} outputs"
            )
        last = Layer(rows, np.zeros(len(rows)))
        head = _composed(last, self.head, rounding=False)
        tail = [self.head, last] if head is None else [head]
        return Network([*self.hidden, *tail], self.name)

    def fused(self, rounding: bool = False) -> Network:
        """The same function with affine layers merged into the next and slopes normalised.

        Units with two equal slopes become identities (the slope moves into the weights), and a
        layer of identities only is multiplied into its successor.

        Parameters
        ----------
        rounding : bool, optional
            Merge also where that rounds.  By default the function stays the same number for number,
            and layers whose product is no float64 matrix stay apart.
        """
        return self.with_layers(fused_layers(self.layers, rounding)[0])

    def _points(self, x: npt.ArrayLike) -> FloatArray:
        points = real_numbers(x, "the points", NetworkError, copy=False)
        if points.ndim == 0 or points.shape[-1] != self.input_dim:
            raise NetworkError(
                f"points have shape {points.shape}, the network takes {self.input_dim} inputs"
            )
        return points


def check_network(network: Any, error: type[LipyomoError]) -> None:
    """Raise an `error` unless it is a `Network`."""
    remedy = "give a Network, as lipyomo.load, from_torch, from_sklearn or from_arrays make it"
    instance(network, Network, "the network", error, remedy)
