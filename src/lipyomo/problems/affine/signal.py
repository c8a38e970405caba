"""Affine signals: the values at one place of a network as a matrix, rows units, columns variables.

Under partial phases a network is affine in its inputs x and one additional variable for each open
unit.  A signal is the matrix of these maps at one place of the network.  Its columns are variables,
and one of them may be the constant one.  Two steps propagate it,

    through a layer:   Z = W H          (the bias goes to the column of the constant),
    past its units:    H = diag(slope) Z + change,

where a stable unit has its slope and no change.  An open one with ``y_k = max(z_k, 0)`` has the
output ``left z_k + (right - left) y_k``: slope left, and a change in the column of y_k.  Tangents
obey the same maps without the constant, with ``s_k = (switch of k) * u_k`` in place of y_k.

The same two steps are taken in three arithmetics:

- `FloatSignal`: in float64.  Sparse weights and sparse signals stay sparse.
- `SizeSignal`: in magnitudes, ``|W| H + |b|``.  Sums of absolute terms through all layers bound the
  rounding errors of everything that is computed from the same weights.
- `lipyomo.problems.affine.exact.ExactSignal`: in exact arithmetic.

`TrackedSignal` combines the first two: values with a bound of their rounding errors.  If the ranges
of the variables are known, `RangedSignal` needs only one magnitude per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Matrix, Pattern, dense, scaled_rows
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import OPEN, RIGHT


class UnitMap(NamedTuple):
    """The map of a layer's units: outputs ``slope * z``, plus an own variable for some units.

    Attributes
    ----------
    slope : ndarray, shape (n,), or (K, n) under each of K patterns
    units : ndarray of int, shape (F,)
        Units of the layer with an own variable.
    columns : ndarray of int, shape (F,)
        Columns of these variables in the signal.
    change : ndarray, shape (F,)
        Coefficients of these variables.
    """

    slope: FloatArray
    units: IntArray
    columns: IntArray
    change: FloatArray

    @classmethod
    def of(cls, layer: Layer, phases: npt.NDArray[np.int8], first: int = 0) -> UnitMap:
        """Build the map under `phases` (n,); open units get the columns from `first` on."""
        layer.check_two_slope()
        units = np.flatnonzero(phases == OPEN)
        slope = np.where(phases == RIGHT, layer.right, layer.left)
        change = (layer.right - layer.left)[units]
        return cls(slope, units, np.arange(first, first + units.size), change)

    @classmethod
    def of_slopes(cls, slope: FloatArray) -> UnitMap:
        """Build a map of slopes only: no unit has an own variable."""
        none = np.zeros(0, dtype=np.intp)
        return cls(slope, none, none, np.zeros(0))

    @property
    def size(self) -> UnitMap:
        """The map of magnitudes."""
        return UnitMap(np.abs(self.slope), self.units, self.columns, np.abs(self.change))


def unit_maps_of(
    layers: Sequence[Layer], phases: Sequence[npt.NDArray[np.int8]], first: int
) -> list[UnitMap]:
    """Return the map of each layer's units; open units of all layers have columns from `first`."""
    found = []
    for layer, phase in zip(layers, phases, strict=True):
        found.append(UnitMap.of(layer, phase, first))
        first += found[-1].units.size
    return found


def decided(layers: Sequence[Layer], pattern: Sequence[BoolArray]) -> list[UnitMap]:
    """Return the map of each layer's units under a full pattern, or a stack of them."""
    return [UnitMap.of_slopes(layer.slopes(on)) for layer, on in zip(layers, pattern, strict=True)]


def affine_pieces(network: Network, pattern: Pattern) -> list[tuple[FloatArray, FloatArray]]:
    """Return pre-activations and outputs as affine functions of x on the region of `pattern`.

    Returns
    -------
    list of (G, g)
        One pair for each layer, ``z_i(x) = G_i x + g_i`` with G_i of shape (n_i, d); the last pair
        is the Jacobian and the offset of the outputs.
    """
    start = FloatSignal.inputs(network.input_dim)
    unit_maps = decided(network.hidden, pattern)
    maps = [np.asarray(z.matrix) for z in carry(start, network.layers, unit_maps)]
    return [(piece[:, :-1], piece[:, -1]) for piece in maps]


class AffineSignal(Protocol):
    """A matrix of affine maps that is propagated through layers."""

    def through(self: S, layer: Layer) -> S:
        """Return the pre-activations of a layer whose inputs this signal is."""

    def past(self: S, unit_map: UnitMap) -> S:
        """Return the outputs of the units whose pre-activations this signal is."""


S = TypeVar("S", bound=AffineSignal)


def carry(signal: S, layers: Iterable[Layer], unit_maps: Iterable[UnitMap]) -> Iterator[S]:
    """Yield the pre-activations of each layer.

    Parameters
    ----------
    signal : AffineSignal
        The inputs of the first layer.
    layers : iterable of Layer
    unit_maps : iterable of UnitMap
        One for each layer; the last layer needs none.
    """
    units = iter(unit_maps)
    for position, layer in enumerate(layers):
        if position:
            signal = signal.past(next(units))
        signal = signal.through(layer)
        yield signal


def _with_entries(matrix: Matrix, rows: IntArray, columns: IntArray, values: FloatArray) -> Matrix:
    """Return `matrix` with `values` added to some entries, in place if it is dense."""
    if isinstance(matrix, np.ndarray):
        matrix[rows, columns] += values
        return matrix
    return sp.csr_array(matrix + sp.csr_array((values, (rows, columns)), shape=matrix.shape))


@dataclass(frozen=True, eq=False)
class FloatSignal:
    """A signal in float64.

    Attributes
    ----------
    values : ndarray or sparse array, shape (n, w), or ndarray, shape (K, n, w), or None
        One signal, or one under each of K patterns; None for the inputs themselves, whose columns
        are 0, 1, ...
    width : int
        Number of columns w.
    constant : int or None
        The column of the constant, -1 for the last.
    """

    values: Matrix | None
    width: int
    constant: int | None = -1

    @classmethod
    def inputs(
        cls,
        dimension: int,
        own: int = 0,
        moving: BoolArray | None = None,
        fixed: FloatArray | None = None,
    ) -> Self:
        """Return the inputs' signal, with `own` columns for open units and one for the constant.

        Parameters
        ----------
        dimension : int
        own : int, optional
        moving : ndarray of bool, shape (d,), optional
            Inputs that are variables; the others have the values `fixed` (d,) and zero columns.
        """
        width = dimension + own + 1
        if moving is None or fixed is None or moving.all():
            return cls(None, width)
        start = np.zeros((dimension, width))
        index = np.flatnonzero(moving)
        start[index, index] = 1.0
        start[:, -1] = np.where(moving, 0.0, fixed)
        return cls(start, width)

    @property
    def matrix(self) -> Matrix:
        """The values; an error for the inputs themselves, which have no matrix."""
        if self.values is None:
            own = 0 if self.constant is None else 1
            raise ValueError(f"the inputs are not written out ({self.width - own} variables)")
        return self.values

    def through(self, layer: Layer) -> Self:
        """Return the pre-activations of a layer."""
        return self._with(self._mapped(layer.weight, layer.bias))

    def _mapped(self, weight: Matrix, bias: FloatArray) -> Matrix:
        """Return the values after an affine map."""
        if self.values is None:  # no product with the identity: inputs may be thousands
            n, d = weight.shape
            found: Matrix = np.zeros((n, self.width))
            found[:, :d] = dense(weight)
        else:
            found = (weight if self.values.ndim == 2 else dense(weight)) @ self.values
        if self.constant is None:
            return found
        if isinstance(found, np.ndarray):
            found[..., self.constant] += bias
            return found
        rows = np.arange(bias.size)
        return _with_entries(found, rows, np.full(bias.size, self.constant % self.width), bias)

    def past(self, unit_map: UnitMap) -> Self:
        """Return the outputs of the units."""
        values = scaled_rows(self.matrix, unit_map.slope)
        if unit_map.units.size:
            values = _with_entries(values, unit_map.units, unit_map.columns, unit_map.change)
        return self._with(values)

    def _with(self, values: Matrix) -> Self:
        return type(self)(values, self.width, self.constant)


@dataclass(frozen=True, eq=False)
class SizeSignal(FloatSignal):
    """A signal in magnitudes: sums of the absolute terms of a `FloatSignal`."""

    def through(self, layer: Layer) -> Self:
        """Return the magnitudes of a layer's pre-activations."""
        return self._with(self._mapped(layer.sizes, np.abs(layer.bias)))

    def past(self, unit_map: UnitMap) -> Self:
        """Return the magnitudes of the units' outputs."""
        return super().past(unit_map.size)


@dataclass(frozen=True, eq=False)
class TrackedSignal:
    """A signal in float64 with its magnitudes.

    Attributes
    ----------
    values : FloatSignal
    sizes : SizeSignal
    terms : int
        Total length of all sums so far: errors are at most ``gamma(terms)`` times the magnitudes.
    """

    values: FloatSignal
    sizes: SizeSignal
    terms: int = 0

    @classmethod
    def of(cls, start: FloatSignal) -> TrackedSignal:
        """Start from values without rounding errors."""
        size = None if start.values is None else abs(start.values)
        return cls(start, SizeSignal(size, start.width, start.constant))

    @property
    def relative(self) -> float:
        """Bound of the errors relative to the magnitudes."""
        return gamma(self.terms)

    def through(self, layer: Layer) -> TrackedSignal:
        """Return the pre-activations of a layer."""
        terms = self.terms + layer.inputs + 2
        return TrackedSignal(self.values.through(layer), self.sizes.through(layer), terms)

    def past(self, unit_map: UnitMap) -> TrackedSignal:
        """Return the outputs of the units."""
        return TrackedSignal(self.values.past(unit_map), self.sizes.past(unit_map), self.terms + 2)


@dataclass(frozen=True, eq=False)
class RangedSignal:
    """A signal in variables of known ranges, with one magnitude per row over these ranges.

    Attributes
    ----------
    values : FloatSignal
    sizes : SizeSignal
        Magnitudes, of width 1.
    terms : int
        Total length of all sums so far.
    """

    values: FloatSignal
    sizes: SizeSignal
    terms: int

    @classmethod
    def of(cls, start: FloatSignal, sizes: FloatArray) -> RangedSignal:
        """Start from values without rounding errors, and their largest absolute values (n,)."""
        constant = None if start.constant is None else 0  # added in the same column
        return cls(start, SizeSignal(sizes[:, None], 1, constant), sizes.size)

    @property
    def error(self) -> FloatArray:
        """Bound of the rounding error of each row, over all values of the variables."""
        return np.asarray(gamma(self.terms) * np.asarray(self.sizes.matrix)[:, 0])

    def through(self, layer: Layer) -> RangedSignal:
        """Return the pre-activations of a layer."""
        terms = self.terms + layer.inputs + self.values.width
        return RangedSignal(self.values.through(layer), self.sizes.through(layer), terms)

    def past(self, unit_map: UnitMap, sizes: FloatArray) -> RangedSignal:
        """Return the outputs of the units; `sizes` (F,) are the magnitudes of own variables."""
        place = np.zeros(unit_map.units.size, dtype=np.intp)
        own = UnitMap(unit_map.slope, unit_map.units, place, unit_map.change * sizes)
        return RangedSignal(self.values.past(unit_map), self.sizes.past(own), self.terms + 2)
