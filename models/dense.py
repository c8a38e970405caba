"""Small PyTorch helpers that the training scripts share."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from experiments.training import TrainedNetwork


def dense_module(trained: TrainedNetwork, epoch: int | None = None) -> torch.nn.Sequential:
    """Make a PyTorch module of trained weights, for the exporters.

    Parameters
    ----------
    trained : TrainedNetwork
        The weights.
    epoch : int, optional
        A snapshot's epoch; the end of training by default.

    Returns
    -------
    torch.nn.Sequential
        Linear layers with ReLU between them.
    """
    last = (trained.weights, trained.biases)
    weights, biases = last if epoch is None else trained.snapshots[epoch]
    sizes = [weights[0].shape[1], *(len(bias) for bias in biases)]
    layers: list[torch.nn.Module] = []
    for (inputs, units), weight, bias in zip(pairwise(sizes), weights, biases, strict=True):
        linear = torch.nn.Linear(inputs, units)
        linear.weight.data = torch.from_numpy(weight)
        linear.bias.data = torch.from_numpy(bias)
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class Standardise(torch.nn.Module):
    """Subtract a constant vector and divide by another: raw units to about one."""

    def __init__(self, shift: ArrayLike, scale: ArrayLike) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(np.asarray(shift, dtype=np.float32)))
        self.register_buffer("scale", torch.tensor(np.asarray(scale, dtype=np.float32)))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Standardise a batch."""
        return (inputs - self.shift) / self.scale


def accuracy(module: torch.nn.Module, samples: ArrayLike, labels: NDArray[np.int64]) -> float:
    """Share of samples whose largest output is that of their class.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier.
    samples : array_like, shape (n, ...)
        Its inputs.
    labels : ndarray of int, shape (n,)
        Classes.

    Returns
    -------
    float
        Between 0 and 1.
    """
    with torch.no_grad():
        outputs = module(torch.tensor(np.asarray(samples, dtype=np.float32)))
    return float((outputs.argmax(dim=1).numpy() == labels).mean())
