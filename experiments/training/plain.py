"""Training of dense ReLU networks in NumPy alone: equal seeds give equal networks without PyTorch.

For measurements that need many small trained networks of many seeds; what is published with the
project is trained by `experiments.training.train`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.training.initial import he_network

Matrices = list[NDArray[np.float64]]

_RATE, _BETAS, _TINY = 1e-3, (0.9, 0.999), 1e-8


def fit_classifier(
    sizes: Sequence[int],
    samples: ArrayLike,
    labels: ArrayLike,
    *,
    epochs: int,
    seed: int = 0,
    batch_size: int = 128,
) -> tuple[Matrices, Matrices]:
    """Fit a dense ReLU classifier by Adam on cross-entropy.

    Parameters
    ----------
    sizes : sequence of int
        Layer sizes, inputs first and classes last.
    samples : array_like, shape (n, sizes[0])
    labels : array_like of int, shape (n,)
        Classes, 0 to ``sizes[-1] - 1``.
    epochs : int
        Passes over the data.
    seed : int, default 0
        Seed of the initial weights (`he_network`) and of the shuffling.
    batch_size : int, default 128

    Returns
    -------
    weights, biases : list of ndarray of float64
        Shapes (units, inputs) and (units,); the values are float32 numbers, as in files.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(400, 2))
    >>> above = (points.sum(axis=1) > 0).astype(int)
    >>> [w, v], [b, c] = fit_classifier((2, 8, 2), points, above, epochs=250)
    >>> outputs = np.maximum(points @ w.T + b, 0) @ v.T + c
    >>> bool((outputs.argmax(axis=1) == above).mean() > 0.9)
    True
    """
    x, y = np.asarray(samples, dtype=np.float64), np.asarray(labels)
    weights, biases = he_network(sizes, seed)
    parameters = [*weights, *biases]
    first, second = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    rng, step = np.random.default_rng(seed), 0
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch_size):
            batch = order[start : start + batch_size]
            step += 1
            slopes = _loss_gradient(weights, biases, x[batch], y[batch])
            for p, g, m, v in zip(parameters, slopes, first, second, strict=True):
                m += (1 - _BETAS[0]) * (g - m)
                v += (1 - _BETAS[1]) * (g * g - v)
                mean, square = m / (1 - _BETAS[0] ** step), v / (1 - _BETAS[1] ** step)
                p -= _RATE * mean / (np.sqrt(square) + _TINY)
    for p in parameters:
        p[...] = p.astype(np.float32)
    return weights, biases


def _loss_gradient(
    weights: Matrices, biases: Matrices, x: NDArray[np.float64], y: NDArray[np.int64]
) -> Matrices:
    """Gradients of the mean cross-entropy of a batch, weights first, then biases."""
    signals = [x]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        signals.append(np.maximum(signals[-1] @ weight.T + bias, 0.0))
    outputs = signals[-1] @ weights[-1].T + biases[-1]
    back = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    back /= back.sum(axis=1, keepdims=True)
    back[np.arange(len(y)), y] -= 1.0
    back /= len(y)
    by_weight: Matrices = []
    by_bias: Matrices = []
    for weight, signal in zip(reversed(weights), reversed(signals), strict=True):
        by_weight.append(back.T @ signal)
        by_bias.append(back.sum(axis=0))
        back = (back @ weight) * (signal > 0.0)
    return [*reversed(by_weight), *reversed(by_bias)]
