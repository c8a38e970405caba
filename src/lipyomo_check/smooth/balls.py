"""Arrays of numbers of Arb, on which code that is written for arrays of float64 computes as well.

With such arrays a bound rests on no float64 arithmetic and on no analysis of its errors: every
entry is a ball that holds the true number.  Comparisons say whether something is surely so, so that
code whose choices are free (of slopes, of points, of one of two valid bounds) stays valid.  What is
not named here is an error: nothing is taken for float64 without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from lipyomo_check.smooth.elementary import Array

NOTHING = 1e-300
"""Stands for shares of rounding: what they are taken of stays infinite where it is."""


BOTH = arb(0, 1)
"""A number between -1 and 1."""


def in_balls(numbers: npt.NDArray[Any] | Balls) -> Array:
    """Return an array of float64 numbers as balls; balls as they are."""
    if isinstance(numbers, Balls):
        return cast(Array, numbers)
    return cast(Array, Balls(_ARB(np.asarray(numbers, dtype=object))))


def alike(numbers: Array, other: Array | Balls) -> Array:
    """Return an array in the numbers of another one."""
    return in_balls(numbers) if isinstance(other, Balls) else numbers


def plain(numbers: Array | Balls) -> Array:
    """Return an array in float64: the middles of balls, for choices that are free."""
    if not isinstance(numbers, Balls):
        return numbers
    return np.asarray(_FLOAT(numbers.data), dtype=np.float64)


def outwards(low: Array | Balls, high: Array | Balls) -> tuple[Array, Array]:
    """Return ends of ranges, those in balls rounded outwards to float64 numbers."""
    if not isinstance(low, Balls) or not isinstance(high, Balls):
        return cast(Array, low), cast(Array, high)
    ends = _FLOAT(_LOWER(low.data)), _FLOAT(_UPPER(high.data))
    below, above = (np.asarray(end, dtype=np.float64) for end in ends)
    return in_balls(np.nextafter(below, -np.inf)), in_balls(np.nextafter(above, np.inf))


class Balls(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of balls, `data` of the type object."""

    def __init__(self, data: npt.NDArray[Any]) -> None:
        self.data = data

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def T(self) -> Balls:
        """The transpose."""
        return Balls(self.data.T)

    def __len__(self) -> int:
        """The first entry of the shape."""
        return len(self.data)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the array."""
        return _wrapped(self.data[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set a part of the array."""
        self.data[key] = _ARB(_unwrapped(value))

    def __array__(self, *arguments: Any, **keywords: Any) -> npt.NDArray[Any]:
        """Refuse to be read as numbers that have no errors."""
        raise TypeError("balls are no float64 numbers")

    def reshape(self, *shape: int) -> Balls:
        """Return the array in another shape."""
        return Balls(self.data.reshape(*shape))

    def transpose(self, *axes: int) -> Balls:
        """Return the array with its axes in another order."""
        return Balls(self.data.transpose(*axes))

    def copy(self) -> Balls:
        """Return a copy."""
        return Balls(self.data.copy())

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Any:
        """Return sums."""
        return np.add.reduce(self, axis=axis)

    def min(self, axis: int | None = None) -> Any:
        """Return least values."""
        return np.minimum.reduce(self, axis=axis)

    def max(self, axis: int | None = None) -> Any:
        """Return largest values."""
        return np.maximum.reduce(self, axis=axis)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute entry by entry, or along an axis."""
        out = options.pop("out", None)
        if ufunc not in _OPERATIONS or set(options) - {"axis"}:
            return NotImplemented
        operation = _OPERATIONS[ufunc]
        if method != "__call__":
            operation = getattr(operation, method)
        found = operation(*(_unwrapped(value) for value in inputs), **options)
        if method == "reduce":
            found = _ARB(found)  # a sum without terms is no ball
        if out is None:
            return _wrapped(found)
        (into,) = out
        if not isinstance(into, Balls):
            raise TypeError("balls are no float64 numbers")
        into.data[...] = found
        return into

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Put arrays together, or choose entries."""
        if func is np.clip:
            values, low, high = args
            return np.minimum(np.maximum(values, low), high)
        if func not in _ARRANGEMENTS:
            return NotImplemented
        found = func(*_unwrapped(args, exact=True), **kwargs)
        return Balls(found if func not in _FILLED else _ARB(found))


def _unwrapped(value: Any, exact: bool = False) -> Any:
    """Return what native operations on objects take; `exact` numbers are balls."""
    if isinstance(value, Balls):
        return value.data
    if isinstance(value, list | tuple):
        return type(value)(_unwrapped(own, exact) for own in value)
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return _ARB(value.astype(object)) if exact else value.astype(object)
    return arb(value) if exact and isinstance(value, float) else value


def _wrapped(found: Any) -> Any:
    return Balls(found) if isinstance(found, np.ndarray) and found.dtype == object else found


def _product(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return products of matrices, as `numpy.matmul` does."""
    if one.ndim == 1:
        return np.asarray(_product(one[None], other)[..., 0, :])
    if other.ndim == 1:
        return np.asarray(_product(one, other[:, None])[..., 0])
    (rows, inner), columns = one.shape[-2:], other.shape[-1]
    if other.ndim == 2:  # one product
        found = (_matrix(one.reshape(-1, inner)) * _matrix(other)).entries()
        return np.array(found, dtype=object).reshape(*one.shape[:-1], columns)
    batch = np.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    others = np.broadcast_to(other, (*batch, inner, columns)).reshape(-1, inner, columns)
    if one.ndim == 2:
        ones = [_matrix(one)] * len(others)
    else:
        every = np.broadcast_to(one, (*batch, rows, inner)).reshape(-1, rows, inner)
        ones = list(map(_matrix, every))
    pairs = zip(ones, map(_matrix, others), strict=True)
    entries = [entry for A, B in pairs for entry in (A * B).entries()]
    return np.array(entries, dtype=object).reshape(*batch, rows, columns)


def _matrix(rows: npt.NDArray[Any]) -> arb_mat:
    return arb_mat(*rows.shape, rows.ravel().tolist())


def _largest(one: Any, other: Any) -> arb:
    return one.max(other) if isinstance(one, arb) else other.max(one)


def _least(one: Any, other: Any) -> arb:
    return one.min(other) if isinstance(one, arb) else other.min(one)


def _finite_of(choose: Callable[[Any, Any], arb]) -> Callable[[Any, Any], arb]:
    """Return what chooses among bounds, each of which is valid: the one that is finite, if any."""

    def chosen(one: Any, other: Any) -> arb:
        one, other = arb(one), arb(other)
        if not one.is_finite():
            return other
        return choose(one, other) if other.is_finite() else one

    return chosen


def _root(value: arb) -> arb:
    """Return the root of the upper end: of what may be zero there is no ball."""
    return arb(value.upper()).max(0.0).sqrt()


def _each(of: Callable[..., Any], count: int = 1) -> Any:
    return np.frompyfunc(of, count, 1)


_ARB = _each(lambda value: value if type(value) is arb else arb(value))
_FLOAT = _each(float)
_LOWER = _each(lambda value: value.lower())
_UPPER = _each(lambda value: value.upper())

_OPERATIONS: dict[Any, Any] = {
    **{
        ufunc: ufunc
        for ufunc in (
            np.add,
            np.subtract,
            np.multiply,
            np.divide,
            np.negative,
            np.absolute,
            np.less,
            np.less_equal,
            np.greater,
            np.greater_equal,
            np.equal,
            np.not_equal,
            np.power,
        )
    },
    np.matmul: _product,
    np.maximum: _each(_largest, 2),
    np.minimum: _each(_least, 2),
    np.fmax: _each(_finite_of(_largest), 2),
    np.fmin: _each(_finite_of(_least), 2),
    np.sqrt: _each(_root),
    np.log: _each(lambda value: value.log()),
    np.nextafter: lambda value, towards: value,  # there is no rounding to make room for
    np.isfinite: lambda values: _each(lambda value: value.is_finite())(values).astype(bool),
    np.isnan: lambda values: _each(lambda value: value.is_nan())(values).astype(bool),
}

_FILLED = {np.ones_like, np.zeros_like}

_ARRANGEMENTS = {
    *_FILLED,
    np.broadcast_to,
    np.concatenate,
    np.diagonal,
    np.stack,
    np.swapaxes,
    np.where,
}
