"""`Network`, the internal form of all networks: a chain of layers (`lipyomo.networks.layer`).

Shapes: d inputs, m outputs, n_i units in hidden layer i.  Networks are dimensionless.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from copy import copy
from itertools import pairwise
from operator import is_
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import instance, real_numbers, whole_number
from lipyomo.base.arrays import (
    BoolArray,
    FloatArray,
    Matrix,
    Pattern,
    sparse_product,
)
from lipyomo.base.errors import LipyomoError, NetworkError
from lipyomo.networks import activations
from lipyomo.networks.activations import Activation
from lipyomo.networks.layer import Curve, Layer, as_matrix, composed, fused_layers
from lipyomo.networks.naming import Names, read_names

__all__ = [
    "Curve",
    "Layer",
    "Network",
    "check_network",
    "check_two_slopes",
    "why_not_smooth",
]


def _shape_of(shape: Sequence[int] | None, size: int, what: str) -> tuple[int, ...]:
    """Return a shape as a tuple; that of a vector by default."""
    instance(shape, (Iterable, NoneType), "the shape", NetworkError, "a sequence of numbers")
    asked = (size,) if shape is None else shape
    found = tuple(whole_number(n, "an entry of the shape", NetworkError) for n in asked)
    if math.prod(found) != size:
        raise NetworkError(f"the shape {found} does not hold the network's {size} {what}")
    return found


def _smooth_kind(given: str | Activation, slope: float) -> Activation | None:
    """Return the requested activation; None for ReLU units."""
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
    """A network ``f : R^d -> R^m`` in the form that all algorithms use.

    The last layer is always affine (an identity layer is appended if the last one has units):
    ``network.hidden`` contains all units, and ``network.head`` maps the last ones to the outputs.

    Parameters
    ----------
    layers : iterable of Layer
    name : str, optional
        Shown in summaries.
    input_shape, output_shape : sequence of int, optional
        Shapes of a point and its value if these are not vectors (images, say); row-major.
    input_parts : mapping of str to int, optional
        Names of consecutive groups of inputs, and the number of entries of each, for files with
        several inputs.
    input_names : sequence of str, optional
        A name for each input, such as those of the columns of a table.

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
        input_parts: Mapping[str, int] | None = None,
        input_names: Sequence[str] | None = None,
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
        self.input_parts = dict(input_parts or {})
        if self.input_parts and sum(self.input_parts.values()) != self.input_dim:
            raise NetworkError(
                f"the named inputs {self.input_parts} are not the {self.input_dim} inputs"
            )
        self.input_names = input_names

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
            Zero by default.
        slope : float, optional
            Slope of ReLU units below zero.
        name : str, optional
        activation : str or Activation, optional
            Activation of the hidden units: ``relu``, or a name of
            `lipyomo.networks.activations.activations`, such as ``tanh``.

        Raises
        ------
        NetworkError
            If shapes do not fit or a number is not finite, the activation is unknown, or a slope
            is given for an activation other than relu.
        """
        kind = _smooth_kind(activation, slope)
        instance(weights, Iterable, "the weights", NetworkError, "a list of matrices")
        matrices = [as_matrix(weight, f"weight {i}") for i, weight in enumerate(weights)]
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
    def input_names(self) -> Names | None:
        """The names of the inputs, or None; they can be set.

        Columns of tables are matched with them, and they can be used instead of input indices.
        """
        return self._input_names

    @input_names.setter
    def input_names(self, names: Sequence[str] | None) -> None:
        self._input_names = None if names is None else read_names(names, self.input_dim)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths (d, n_1, ..., n_L, m)."""
        return (self.input_dim, *(layer.units for layer in self.layers))

    @property
    def linked(self) -> BoolArray:
        """Which outputs (m,) may depend on an input, through nonzero weights and slopes."""
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
    def needs_ranges(self) -> bool:
        """Whether any hidden unit's slope is bounded on bounded ranges of its argument only."""
        return any(layer.needs_ranges for layer in self.hidden)

    @property
    def activations(self) -> dict[str, int]:
        """Names of the smooth units' activations, with the number of units of each."""
        found: Counter[str] = Counter()
        for curve in (curve for layer in self.hidden for curve in layer.curves):
            found[curve.activation.true.name] += curve.units.size
        return dict(found)

    def describe(self) -> str:
        """Describe the network, as ``4-8-8-3, 16 units``: inputs, units of each layer, outputs.

        Identity units, and layers that have no others, do not count.  Smooth units are named:
        ``2-16-16-1, 32 units (tanh)``, or ``(16 tanh, 16 two-slope)``.
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
        """Return values ``f(x)``; `x` of shape (d,) or (n, d) gives (m,) or (n, m)."""
        h = self._points(x)
        for layer in self.layers:
            h = layer.activate(layer.preactivation(h))
        return h

    def __call__(self, x: npt.ArrayLike) -> FloatArray:
        """Evaluate the network at points of its input shape, or flattened as for `forward`.

        Parameters
        ----------
        x : array_like, shape (d,), (n, d), `input_shape` or (n, *`input_shape`)

        Returns
        -------
        ndarray, shape (m,), (n, m), `output_shape` or (n, *`output_shape`)
            Flattened if and only if the points are.
        """
        points = real_numbers(x, "the points", NetworkError, copy=False)
        own, axes = self.input_shape, len(self.input_shape)
        if axes == 1 or points.shape[-axes:] != own:
            return self.forward(points)
        batch = points.shape[: points.ndim - axes]
        found = self.forward(points.reshape(*batch, self.input_dim))
        return found.reshape(*batch, *self.output_shape)

    def preactivations(self, x: npt.ArrayLike) -> list[FloatArray]:
        """Pre-activations of each hidden layer at `x`, shapes (..., n_i)."""
        h, found = self._points(x), []
        for layer in self.hidden:
            z = layer.preactivation(h)
            found.append(z)
            h = layer.activate(z)
        return found

    def pattern(self, x: npt.ArrayLike) -> Pattern:
        """Return which hidden units have their right-hand slope (z > 0) at `x`; shapes (..., n_i).

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

    def hessian_product(
        self, x: npt.ArrayLike, functional: npt.ArrayLike, directions: npt.ArrayLike
    ) -> FloatArray:
        """Multiply the Hessian of ``c . f`` at a point with directions, in float64.

        With ``z_i`` the pre-activations of hidden layer i, ``J_i`` their Jacobian in the inputs and
        ``t_i`` the adjoints of its units' outputs, the Hessian is
        ``sum_i J_i^T diag(sigma''(z_i) t_i) J_i``.

        Parameters
        ----------
        x : array_like, shape (d,)
        functional : array_like, shape (m,)
        directions : array_like, shape (d,) or (d, k)

        Returns
        -------
        ndarray, shape of `directions`
        """
        along = np.asarray(directions, dtype=np.float64)
        values, moved, slopes = self.preactivations(x), [], []
        for layer, z in zip(self.hidden, values, strict=True):
            slopes.append(layer.slopes_at(z))
            moved.append(layer.weight @ along)
            along = (slopes[-1] * moved[-1].T).T
        arriving = self.head.weight.T @ np.asarray(functional, dtype=np.float64)
        back = np.zeros((arriving.size, *along.shape[1:]))  # derivatives of the adjoints along them
        for i in reversed(range(len(self.hidden))):
            layer = self.hidden[i]
            curved = np.zeros(layer.units)
            for curve in layer.curves:
                curved[curve.units] = curve.activation.curvature(values[i][curve.units])
            change = (curved * arriving * moved[i].T).T + (slopes[i] * back.T).T
            arriving = layer.weight.T @ (slopes[i] * arriving)
            back = layer.weight.T @ change
        return np.asarray(back)

    def _slopes(self, points: FloatArray) -> list[FloatArray]:
        """Slopes of the hidden units at points of shape (..., d), shapes (..., n_i)."""
        found = zip(self.hidden, self.preactivations(points), strict=True)
        return [layer.slopes_at(z) for layer, z in found]

    def _chained(self, rows: FloatArray, slopes: Sequence[FloatArray]) -> FloatArray:
        """Pull functionals (n, n_L) of the last units back to the inputs (n, d)."""
        for layer, slope in zip(reversed(self.hidden), reversed(slopes), strict=True):
            rows = (rows * slope) @ layer.weight
        return np.asarray(rows)

    # -- derived networks ----------------------------------------------------------------------

    def with_layers(self, layers: Sequence[Layer]) -> Network:
        """Return a network of other layers with this name and these shapes; itself if unchanged."""
        if len(layers) == len(self.layers) and all(map(is_, layers, self.layers)):
            return self
        shapes = self.input_shape, self.output_shape
        return Network(layers, self.name, *shapes, self.input_parts, self.input_names)

    def with_functional(self, functionals: npt.ArrayLike) -> Network:
        """Return the network ``C f`` for `functionals` C of shape (k, m) or (m,)."""
        rows = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
        if rows.shape[1] != self.output_dim:
            raise NetworkError(
                f"the functional has {rows.shape[1]} entries, the network has "
                f"{self.output_dim} outputs"
            )
        last = Layer(rows, np.zeros(len(rows)))
        head = composed(last, self.head, rounding=False)
        tail = [self.head, last] if head is None else [head]
        return Network([*self.hidden, *tail], self.name, input_names=self.input_names)

    def with_directions(self, directions: Matrix) -> Network:
        """Return the network ``v -> f(T v)`` for `directions` T of shape (d, k).

        It has the same units.  The product with the first layer's weight may round.
        """
        first, *rest = self.layers
        begun = first.with_map(sparse_product(first.weight, directions), first.bias)
        return Network([begun, *rest], self.name, output_shape=self.output_shape)

    def fused(self, rounding: bool = False) -> Network:
        """Fuse affine layers with the next ones and normalise slopes.

        Units with two equal slopes become identities (the slope is multiplied into the weights),
        and a layer of identities only is multiplied into its successor.

        Parameters
        ----------
        rounding : bool, optional
            Fuse also where that rounds.  By default the function stays exactly the same, and layers
            whose product is not exact in float64 are kept.
        """
        return self.with_layers(fused_layers(self.layers, rounding)[0])

    def _points(self, x: npt.ArrayLike) -> FloatArray:
        points = real_numbers(x, "the points", NetworkError, copy=False)
        if points.ndim == 0 or points.shape[-1] != self.input_dim:
            raise NetworkError(
                f"points have shape {points.shape}, the network takes {self.input_dim} inputs"
            )
        return points


def check_network(network: Any, error: type[LipyomoError]) -> Network:
    """Return `network`; raise an `error` unless it is a `Network`."""
    remedy = "give a Network, as lipyomo.load, from_torch, from_sklearn or from_arrays make it"
    instance(network, Network, "the network", error, remedy)
    found: Network = network
    return found


def why_not_smooth(network: Network, what: str, remedy: str) -> str | None:
    """Explain why a method for piecewise-linear networks refuses a network; None if it does not.

    Parameters
    ----------
    network : Network
    what : str
        The subject of the message.
    remedy : str
    """
    if not network.smooth:
        return None
    return (
        f"{what} is for piecewise-linear networks, and this one has smooth units "
        f"({', '.join(network.activations)}).  Remedy: {remedy}"
    )


def check_two_slopes(network: Network, what: str, remedy: str, error: type[LipyomoError]) -> None:
    """Raise an `error` if a network has smooth units; see `why_not_smooth`."""
    reason = why_not_smooth(network, what, remedy)
    if reason is not None:
        raise error(reason)


def with_input_names(network: Network, names: Sequence[str] | None) -> Network:
    """Return the network, with these names of its inputs if it has none."""
    if network.input_names is not None or names is None:
        return network
    found = copy(network)
    found.input_names = names
    return found
