"""Random networks with He initialisation (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Matrices = list[NDArray[np.float64]]


def he_network(sizes: Sequence[int], seed: int = 0) -> tuple[Matrices, Matrices]:
    """Draw a random dense network: He-normal weights, small uniform biases.

    The paper's random networks ("initialized according to He initialization") say nothing of the
    biases; they are uniform in +-1/sqrt(inputs) here, PyTorch's default, so that the kinks do not
    all pass through the origin.

    Parameters
    ----------
    sizes : sequence of int
        Layer sizes, inputs first and outputs last.
    seed : int, default 0
        Seed of the generator.

    Returns
    -------
    weights, biases : list of ndarray of float64
        Shapes (units, inputs) and (units,); the values are float32 numbers.

    Examples
    --------
    >>> weights, biases = he_network([10, 10, 10, 1], seed=0)
    >>> [w.shape for w in weights]
    [(10, 10), (10, 10), (1, 10)]
    """
    rng = np.random.default_rng(seed)
    weights: Matrices = []
    biases: Matrices = []
    for inputs, units in pairwise(sizes):
        weight = rng.standard_normal((units, inputs)) * np.sqrt(2.0 / inputs)
        bias = rng.uniform(-1.0, 1.0, units) / np.sqrt(inputs)
        weights.append(weight.astype(np.float32).astype(np.float64))
        biases.append(bias.astype(np.float32).astype(np.float64))
    return weights, biases
