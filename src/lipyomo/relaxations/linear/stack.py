"""A batch of partial patterns over boxes, and what their pre-activation bounds decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.phases import LEFT, OPEN, RIGHT

PhaseBatch = npt.NDArray[np.int8]
"""Phases of a batch of B patterns, shape (B, units)."""


class Part(Protocol):
    """A partial pattern on a part of the domain."""

    @property
    def phases(self) -> npt.NDArray[np.int8]:
        """Shape (N,)."""
        ...

    @property
    def lower(self) -> FloatArray:
        """Lower bounds of the pre-activations, shape (N,)."""
        ...

    @property
    def upper(self) -> FloatArray:
        """Their upper bounds, shape (N,)."""
        ...

    @property
    def low(self) -> FloatArray:
        """Lower ends of a box, shape (d,)."""
        ...

    @property
    def high(self) -> FloatArray:
        """Its upper ends, shape (d,)."""
        ...


@dataclass(frozen=True, eq=False)
class Stack:
    """B partial patterns, each over a box of its own, whose bounds are tightened in place.

    Attributes
    ----------
    phases : ndarray of int8, shape (B, N)
    lower, upper : ndarray, shape (B, N)
        Bounds of the pre-activations; infinite when unknown.
    low, high : ndarray, shape (B, d)
        Input boxes.
    alive : ndarray of bool, shape (B,)
        False once a pattern is known to have no point in its box.
    """

    phases: PhaseBatch
    lower: FloatArray
    upper: FloatArray
    low: FloatArray
    high: FloatArray
    alive: BoolArray

    @classmethod
    def unknown(cls, phases: PhaseBatch, low: FloatArray, high: FloatArray) -> Stack:
        """Nothing is known of the pre-activations; `phases` are copied."""
        infinite = np.full(phases.shape, np.inf)
        return cls(phases.copy(), -infinite, infinite, low, high, np.ones(len(phases), dtype=bool))

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Stack:
        """Copies of what is known of some parts."""
        return cls(
            np.stack([part.phases for part in parts]),
            np.stack([part.lower for part in parts]),
            np.stack([part.upper for part in parts]),
            np.stack([part.low for part in parts]),
            np.stack([part.high for part in parts]),
            np.ones(len(parts), dtype=bool),
        )

    def layer(self, span: slice) -> Stack:
        """The units of one layer, in the same memory."""
        phases, lower, upper = self.phases[:, span], self.lower[:, span], self.upper[:, span]
        return Stack(phases, lower, upper, self.low, self.high, self.alive)

    def take(self, index: IntArray) -> Stack:
        """Copies of some of the patterns."""
        phases, lower, upper = self.phases[index], self.lower[index], self.upper[index]
        return Stack(phases, lower, upper, self.low[index], self.high[index], self.alive[index])

    def put(self, index: IntArray, part: Stack) -> None:
        """Replace some of the patterns, whose boxes stay."""
        self.phases[index], self.alive[index] = part.phases, part.alive
        self.lower[index], self.upper[index] = part.lower, part.upper

    def meet(self, lower: FloatArray, upper: FloatArray, units: IntArray | None = None) -> None:
        """Intersect the bounds of all or some units with others."""
        if units is None:
            np.maximum(self.lower, lower, out=self.lower)
            np.minimum(self.upper, upper, out=self.upper)
        elif units.size:
            self.lower[:, units] = np.maximum(self.lower[:, units], lower)
            self.upper[:, units] = np.minimum(self.upper[:, units], upper)

    def decide(self) -> None:
        """Let the bounds decide unstable units."""
        open_ = self.phases == OPEN
        on = open_ & (self.lower >= 0)
        self.phases[on] = RIGHT
        self.phases[open_ & ~on & (self.upper <= 0)] = LEFT

    def cut(self, kinked: BoolArray) -> None:
        """Let stable units cut their bounds, or show that no point has these phases.

        Parameters
        ----------
        kinked : ndarray of bool, shape (N,)
            Units without a kink force no sign.
        """
        lower, upper = self.lower, self.upper
        np.maximum(lower, 0.0, out=lower, where=(self.phases == RIGHT) & kinked)
        np.minimum(upper, 0.0, out=upper, where=(self.phases == LEFT) & kinked)
        self.alive[(lower > upper).any(axis=1)] = False
        np.maximum(upper, lower, out=upper)

    def settle(self, kinked: BoolArray) -> None:
        """Let bounds decide units, and stable units cut their bounds."""
        self.decide()
        self.cut(kinked)
