"""Partial activation patterns: each unit is on its left slope, on its right slope, or open.

Units without a kink are always `RIGHT`; smooth ones are open unless their slope is constant on the
whole domain.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Network

LEFT, RIGHT, OPEN = range(3)

Phases: TypeAlias = "tuple[npt.NDArray[np.int8], ...]"
"""One int8 array for each hidden layer, with entries LEFT, RIGHT or OPEN; shape (n_i,)."""


def open_phases(network: Network) -> Phases:
    """Return phases with all units open except linear ones."""
    return tuple(
        np.where(layer.bent, np.int8(OPEN), np.int8(RIGHT)).astype(np.int8)
        for layer in network.hidden
    )


def flat(phases: Phases) -> npt.NDArray[np.int8]:
    """Phases of all layers in one array, shape (N,)."""
    return np.concatenate([np.zeros(0, dtype=np.int8), *phases])


def decide(phases: Phases, lower: list[FloatArray], upper: list[FloatArray]) -> Phases:
    """Fix the open units whose pre-activation bounds allow one side only.

    Parameters
    ----------
    phases : Phases
    lower, upper : list of ndarray, shapes (n_i,)
        Bounds of the pre-activations.  A unit with lower >= 0 is right, with upper <= 0 left: the
        other side could only be attained at zero.
    """
    closed = []
    for layer, low, high in zip(phases, lower, upper, strict=True):
        new = layer.copy()
        new[(layer == OPEN) & (low >= 0)] = RIGHT
        new[(layer == OPEN) & (low < 0) & (high <= 0)] = LEFT
        closed.append(new)
    return tuple(closed)


def count_open(phases: Phases) -> int:
    """Return the number of unstable units."""
    return sum(int((layer == OPEN).sum()) for layer in phases)
