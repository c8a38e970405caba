"""What every activation gives: values, ranges and bands, all sound.

An activation is a continuous function on R, smooth but for finitely many breaks.  It is a frozen
value: two are equal if they are of one kind with the same parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from flint import arb

from lipyomo.arrays import FloatArray


class Activation(ABC):
    """A function of one variable that units apply; `name` is such as ``tanh`` or ``elu(0.5)``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its kind and parameters."""

    @property
    @abstractmethod
    def breaks(self) -> tuple[float, ...]:
        """Where the slope jumps or has no derivative, in order."""

    @property
    @abstractmethod
    def jumps(self) -> tuple[bool, ...]:
        """Whether the slope jumps at each of these."""

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """Sound least and greatest slope over all of R."""

    @property
    def reflection(self) -> tuple[float, float] | None:
        """Numbers (P, Q) with ``sigma(-z) = P sigma(z) + Q z`` for all z; (-1, 0) if it is odd."""
        return None

    @abstractmethod
    def value(self, z: FloatArray) -> FloatArray:
        """The value at finite `z`, of any shape."""

    @abstractmethod
    def slope(self, z: FloatArray) -> FloatArray:
        """The slope at finite `z`, of any shape; where it jumps, that from the right."""

    @abstractmethod
    def curvature(self, z: FloatArray) -> FloatArray:
        """The second derivative at finite `z`, in floating point; at breaks that from the right."""

    @abstractmethod
    def value_error(self, z: FloatArray) -> FloatArray:
        """Sound bounds of what `value` is off by."""

    @abstractmethod
    def slope_error(self, z: FloatArray) -> FloatArray:
        """Sound bounds of what `slope` is off by."""

    @abstractmethod
    def enclose(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound ranges of sigma on [low, high]; the ends may be infinite."""

    @abstractmethod
    def slope_range(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound ranges of sigma' on [low, high]; the ends may be infinite.

        At a break that is an end only the slope from inside counts, and those of both sides where
        the interval is one point.
        """

    @abstractmethod
    def curvature_range(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound ranges of sigma'' inside (low, high), where it exists."""

    @abstractmethod
    def lines(
        self,
        A: FloatArray,
        c: FloatArray,
        low: FloatArray,
        high: FloatArray,
        slope: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bands around ``A sigma + c sigma'``.

        Parameters
        ----------
        A, c : ndarray
            Finite; either may be zero.
        low, high : ndarray
            Finite ends, low <= high.
        slope : ndarray, optional
            What s is to be; that of the chord unless given.  All are broadcast.

        Returns
        -------
        s, lo, hi : ndarray
            ``s z + lo <= A sigma(z) + c sigma'(z) <= s z + hi`` for all real z in [low, high], with
            slopes at breaks as in `slope_range`; ``hi - lo`` is O((high - low)**2) between breaks
            for chords.
        """

    @abstractmethod
    def exact(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of sigma and sigma' on a ball; at breaks the slopes of both sides."""
