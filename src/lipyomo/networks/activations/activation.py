"""Activations: values, and sound ranges and bands computed from branches; their registry.

An activation is a continuous function on R, smooth except at finitely many breaks, where its
branches meet.  It is immutable; two are equal if they have the same kind and parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from flint import arb

from lipyomo.base.arguments import real_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NetworkError
from lipyomo.base.modules import import_modules, module_names
from lipyomo.base.system.memory import ARRAYS, CACHED
from lipyomo.networks.activations.bands import Band, Cut, band, cuts, share
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.parabolas import parabola

BLOCK = CACHED // (8 * ARRAYS)
"""Number of entries that `lines` treats at a time, so that its arrays stay in the cache."""


class Slope(NamedTuple):
    """The slope of an activation in terms of another one: ``sigma'(z) = factor kind(scale z)``.

    Attributes
    ----------
    factor : float
    kind : Activation or None
        None for the identity.
    scale : float
    """

    factor: float
    kind: Activation | None
    scale: float = 1.0


class Activation(ABC):
    """A function of one variable that units apply, with names such as ``tanh`` or ``elu(0.5)``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its kind and parameters."""

    @property
    @abstractmethod
    def branches(self) -> tuple[Branch, ...]:
        """The branches from left to right; each ends where the next one begins."""

    @property
    def true(self) -> Activation:
        """The original function, if this one is confined to an interval; else itself."""
        return self

    @property
    def reflection(self) -> tuple[float, float] | None:
        """Numbers (P, Q) with ``sigma(-z) = P sigma(z) + Q z`` for all z; (-1, 0) if it is odd."""
        return None

    @property
    def derivative(self) -> Slope:
        """The slope as an activation.

        Raises
        ------
        NetworkError
            If there is none: the slope jumps, or bounds of it are not supported.
        """
        if any(self.jumps):
            pairs = zip(self.breaks, self.jumps, strict=True)
            where = ", ".join(f"{at:g}" for at, jumps in pairs if jumps)
            raise NetworkError(
                f"the slope of {self.name} jumps at {where}, so that gradients are not continuous"
            )
        raise NetworkError(f"derivatives of {self.name} are not supported as activations")

    @cached_property
    def breaks(self) -> tuple[float, ...]:
        """Points where branches meet, ascending: the slope jumps or is not differentiable."""
        return tuple(branch.low for branch in self.branches[1:])

    @cached_property
    def jumps(self) -> tuple[bool, ...]:
        """Whether the slope jumps at each of these."""
        return tuple(
            left.tails[1][1] != right.tails[1][0] for left, right in pairwise(self.branches)
        )

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Sound least and greatest slope over all of R."""
        extents = [branch.extent(1) for branch in self.branches]
        return min(low for low, _ in extents), max(high for _, high in extents)

    def _derivative(self, order: int, z: FloatArray) -> FloatArray:
        """Return a derivative at finite `z`; at a break that of the right branch."""
        z, first = np.asarray(z, dtype=np.float64), self.branches[0]
        with np.errstate(all="ignore"):
            found = np.asarray(first.jet(np.minimum(z, first.high), order)[order])
            for branch in self.branches[1:]:
                inside = np.clip(z, branch.low, branch.high)
                found = np.where(z >= branch.low, branch.jet(inside, order)[order], found)
        return found

    def value(self, z: FloatArray) -> FloatArray:
        """Return the value at finite `z`, of any shape."""
        return self._derivative(0, z)

    def slope(self, z: FloatArray) -> FloatArray:
        """Return the slope at finite `z`; at a break that of the branch on its right."""
        return self._derivative(1, z)

    def curvature(self, z: FloatArray) -> FloatArray:
        """Return the second derivative at finite `z`; at a break, that of the right branch."""
        return self._derivative(2, z)

    def _range(
        self, order: int, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        ends = (np.asarray(end, dtype=np.float64) for end in (low, high))
        low, high = np.broadcast_arrays(*ends)
        shape = low.shape
        low, high = low.reshape(-1), high.reshape(-1)
        with np.errstate(all="ignore"):
            if len(self.branches) == 1:
                least, greatest = self.branches[0].range(order, low, high)
                return least.reshape(shape), greatest.reshape(shape)
            least, greatest = np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
            for branch in self.branches:
                first, last, held = share(branch, low, high)
                under, over = branch.range(order, first, last)
                np.minimum(least, np.where(held, under, np.inf), out=least)
                np.maximum(greatest, np.where(held, over, -np.inf), out=greatest)
        return least.reshape(shape), greatest.reshape(shape)

    def enclose(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound ranges of sigma on [low, high]; the ends may be infinite."""
        return self._range(0, low, high)

    def slope_range(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound ranges of sigma' on [low, high]; the ends may be infinite.

        At a break that is an end only the slope from inside counts, and those of both sides where
        the interval is one point.
        """
        return self._range(1, low, high)

    def lines(
        self,
        A: FloatArray,
        c: FloatArray,
        low: FloatArray,
        high: FloatArray,
        slope: FloatArray | None = None,
    ) -> Band:
        """Bands around ``A sigma + c sigma'``, see `lipyomo.networks.activations.bands`.

        Parameters
        ----------
        A, c : ndarray
            Finite; either may be zero.
        low, high : ndarray
            Finite ends, low <= high.
        slope : ndarray, optional
            The slope s; by default that of the chord.  All arrays are broadcast.

        Returns
        -------
        s, lo, hi : ndarray
            ``s z + lo <= A sigma(z) + c sigma'(z) <= s z + hi`` for all real z in [low, high], with
            slopes at breaks as in `slope_range`; ``hi - lo`` is O((high - low)**2) between breaks
            for chords.
        """
        some = (A, c, low, high) if slope is None else (A, c, low, high, slope)
        s, least, greatest = self._each_block(
            some, lambda cut, *block: self._band(cut, Sums(*block)), 3
        )
        least[~(least < np.inf)] = -np.inf  # no bound after an overflow
        greatest[~(greatest > -np.inf)] = np.inf
        return s, least, greatest

    def parabolas(
        self, A: FloatArray, c: FloatArray, low: FloatArray, high: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Parabolas around ``A sigma + c sigma'``, see `lipyomo.networks.activations.parabolas`.

        Parameters
        ----------
        A, c, low, high : ndarray
            As of `lines`.
        f : ndarray
            Finite.  All are broadcast.

        Returns
        -------
        s, k, lo, hi : ndarray
            ``lo <= A sigma(z) + c sigma'(z) - s z - k (z - f)**2 / 2 <= hi`` for all real z in
            [low, high]; ``hi - lo`` is O((high - low)**3) between breaks.
        """

        def made(cut: Cut, *block: FloatArray) -> tuple[FloatArray, ...]:
            return parabola(cut, Sums(*block[:4]), block[4])

        s, k, under, over = self._each_block((A, c, low, high, f), made, 4)
        under[np.isnan(under)], over[np.isnan(over)] = -np.inf, np.inf
        return s, k, under, over

    def _each_block(
        self, some: Sequence[FloatArray], made: Callable[..., tuple[FloatArray, ...]], count: int
    ) -> tuple[FloatArray, ...]:
        """Compute `count` numbers for each interval, whose ends are the third and fourth array.

        `made` is called for blocks of intervals with equal subdivisions that fit into the cache.
        """
        given = [np.asarray(array, dtype=np.float64) for array in some]
        assert all(np.isfinite(array).all() for array in given), "bands need finite numbers"
        shape = np.broadcast_shapes(*(array.shape for array in given))
        flat = [np.broadcast_to(array, shape).reshape(-1) for array in given]
        found = tuple(np.empty(flat[0].size) for _ in range(count))
        with np.errstate(all="ignore"):
            for cut in cuts(self.branches, flat[2], flat[3]):
                everything = cut.where.size == flat[0].size
                for start in range(0, cut.where.size, BLOCK):
                    part = slice(start, start + BLOCK)
                    block = part if everything else cut.where[part]
                    here = made(cut, *(array[block] for array in flat))
                    for array, ends in zip(found, here, strict=True):
                        array[block] = ends
        return tuple(array.reshape(shape) for array in found)

    def _band(self, cut: Cut, sums: Sums) -> Band:
        """Compute the bands of one block; overridden by activations with better ones."""
        return band(cut, sums)

    def exact(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of sigma and sigma' on a ball; at breaks the slopes of both sides."""
        found: tuple[arb, arb] | None = None
        for branch in self.branches:
            if z < branch.low or z > branch.high:
                continue
            here = branch.ball(z)
            found = here if found is None else (found[0].union(here[0]), found[1].union(here[1]))
        assert found is not None, "the branches cover R"
        return found


# -- the registry ---------------------------------------------------------------------------------

_TABLE: dict[str, Callable[..., Activation]] = {}

Kind = TypeVar("Kind", bound=Callable[..., Activation])


def known_as(*names: str) -> Callable[[Kind], Kind]:
    """Register a class, or a function that returns an activation, under some names."""

    def enter(made: Kind) -> Kind:
        for name in names:
            _TABLE[name] = made
        return made

    return enter


def activation(name: str, **parameters: Any) -> Activation:
    """Return the activation of a name.

    Parameters
    ----------
    name : str
        Such as ``tanh``, ``elu`` or ``gelu``; see `activations`.
    **parameters : float
        Parameters of the activation, such as ``alpha=0.5``.

    Raises
    ------
    NetworkError
        If the name is unknown, or the parameters do not fit.
    """
    package = "lipyomo.networks.activations"
    if name not in _TABLE and name in module_names(package):  # most have a file of their own name
        import_module(f"{package}.{name}")
    made = _TABLE.get(name) or _whole_table().get(name)
    if made is None:
        raise NetworkError(f"unknown activation '{name}'; there are {', '.join(activations())}")
    try:
        return made(**parameters)
    except TypeError as problem:
        raise NetworkError(f"activation '{name}': {problem}") from problem


def activations() -> tuple[str, ...]:
    """Return the names of all activations, in alphabetical order."""
    return tuple(sorted(_whole_table()))


def _whole_table() -> dict[str, Callable[..., Activation]]:
    """Return the table once all modules of this package have entered their activations."""
    import_modules("lipyomo.networks.activations")
    return _TABLE


def finite_number(value: float, what: str) -> float:
    """Return a parameter as a float; raise `NetworkError` unless it is finite."""
    number = real_number(value, what, NetworkError)
    if not math.isfinite(number):
        raise NetworkError(f"{what} must be a finite number, not {value!r}")
    return number


def positive_number(value: float, what: str) -> float:
    """Return a parameter as a float; raise `NetworkError` unless it is positive.

    It must lie between 1e-100 and 1e100, so that its powers do not overflow or underflow.
    """
    number = finite_number(value, what)
    if not 1e-100 <= number <= 1e100:
        raise NetworkError(f"{what} must be positive (1e-100 to 1e100), not {value!r}")
    return number
