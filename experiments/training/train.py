"""Training of the papers' networks in PyTorch: Adam on a loss plus weight penalties, or FGSM.

The regularisers are those of Jordan and Dimakis (NeurIPS 2020), appendix F.2. PyTorch is the extra
``[torch]`` and is imported inside the functions that train; the rest of lipyomo never needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.training.loop import fit, import_torch
from lipyomo.base.errors import ProblemError
from lipyomo.networks.network import Network

Arrays = list[NDArray[np.float32]]


@dataclass(frozen=True)
class TrainedNetwork:
    """Weights of a dense ReLU network, at the end of training and at snapshots before it.

    Attributes
    ----------
    weights : list of ndarray of float32
        One matrix per affine layer, shape (units, inputs): ``y = relu(W x + b)``.
    biases : list of ndarray of float32
        One vector per affine layer, shape (units,).
    snapshots : dict of int to (weights, biases)
        The weights after the epochs that were asked for, in the order of training.
    """

    weights: Arrays
    biases: Arrays
    snapshots: dict[int, tuple[Arrays, Arrays]] = field(default_factory=dict)

    def network(self, epoch: int | None = None, name: str = "network") -> Network:
        """Give the trained weights as a `lipyomo.networks.network.Network`.

        Parameters
        ----------
        epoch : int, optional
            A snapshot's epoch; the end of training by default.
        name : str, default "network"
            Name of the network.

        Returns
        -------
        Network
            ReLU after every layer but the last.

        Raises
        ------
        ProblemError
            If there is no snapshot of that epoch.
        """
        if epoch is None:
            return Network.from_arrays(self.weights, self.biases, name=name)
        if epoch not in self.snapshots:
            known = ", ".join(map(str, self.snapshots)) or "none"
            raise ProblemError(f"no snapshot of epoch {epoch}; snapshots were taken at: {known}")
        weights, biases = self.snapshots[epoch]
        return Network.from_arrays(weights, biases, name=name)


def train_classifier(
    sizes: Sequence[int],
    X: ArrayLike,
    y: ArrayLike,
    *,
    epochs: int,
    lr: float = 1e-3,
    l1: float = 0.0,
    l2: float = 0.0,
    fgsm: float = 0.0,
    batch_size: int = 128,
    seed: int = 0,
    snapshots: Sequence[int] = (),
) -> TrainedNetwork:
    """Train a dense ReLU classifier on cross-entropy, with the paper's regularisers.

    Parameters
    ----------
    sizes : sequence of int
        Layer sizes, inputs first and classes last: ``(784, 20, 20, 20, 2)``.
    X : array_like, shape (n, sizes[0])
        Samples.
    y : array_like of int, shape (n,)
        Classes, 0 to ``sizes[-1] - 1``.
    epochs : int
        Passes over the data.
    lr : float, default 1e-3
        Learning rate of Adam.
    l1, l2 : float, default 0
        Penalties on the sum of the absolute values, and of the squares, of the weights (biases are
        free).
    fgsm : float, default 0
        If positive, every batch is replaced by its fast-gradient-sign adversarial examples with
        this step; they are not clipped to the data's domain.
    batch_size : int, default 128
        Samples per step (the paper prints none).
    seed : int, default 0
        Seed of the initial weights and of the shuffling. Equal seeds give equal weights on one
        machine and PyTorch version.
    snapshots : sequence of int, default ()
        Epochs after which the weights are kept; epoch 0 is the initial network.

    Returns
    -------
    TrainedNetwork
        Weights and biases in float32, and the snapshots.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ProblemError
        If the data do not fit the layer sizes.
    """
    torch = import_torch()
    samples, classes = _samples(X, sizes), np.asarray(y)
    if classes.shape != (len(samples),):
        raise ProblemError(f"{len(samples)} samples need as many classes, got {classes.shape}")
    if classes.min() < 0 or classes.max() >= sizes[-1]:
        raise ProblemError(
            f"classes run from {classes.min()} to {classes.max()}, "
            f"but {sizes[-1]} outputs know 0 to {sizes[-1] - 1}"
        )
    return _trained(
        sizes,
        samples,
        classes.astype(np.int64),
        torch.nn.functional.cross_entropy,
        seed,
        snapshots,
        epochs=epochs,
        lr=lr,
        l1=l1,
        l2=l2,
        fgsm=fgsm,
        batch_size=batch_size,
    )


def train_regressor(
    sizes: Sequence[int],
    X: ArrayLike,
    y: ArrayLike,
    *,
    epochs: int,
    lr: float = 1e-3,
    batch_size: int = 128,
    seed: int = 0,
) -> TrainedNetwork:
    """Train a dense ReLU surrogate of a function on the mean squared error.

    Parameters
    ----------
    sizes : sequence of int
        Layer sizes, inputs first and outputs last.
    X : array_like, shape (n, sizes[0])
        Samples of the inputs; scale them to about one beforehand.
    y : array_like, shape (n,) or (n, sizes[-1])
        Values of the function.
    epochs : int
        Passes over the data.
    lr : float, default 1e-3
        First learning rate of Adam; it falls to zero along half a cosine.
    batch_size : int, default 128
        Samples per step.
    seed : int, default 0
        Seed of the initial weights and of the shuffling.

    Returns
    -------
    TrainedNetwork
        Weights and biases in float32.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ProblemError
        If the data do not fit the layer sizes.
    """
    torch = import_torch()
    samples = _samples(X, sizes)
    values = np.asarray(y, dtype=np.float32)
    if values.size != len(samples) * sizes[-1]:
        raise ProblemError(
            f"{len(samples)} samples and {sizes[-1]} outputs need {len(samples) * sizes[-1]} "
            f"values, got {values.size}"
        )
    return _trained(
        sizes,
        samples,
        values.reshape(len(samples), sizes[-1]),
        torch.nn.functional.mse_loss,
        seed,
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        cosine=True,
    )


def _trained(
    sizes: Sequence[int],
    samples: NDArray[np.float32],
    targets: NDArray[Any],
    loss: Callable[[Any, Any], Any],
    seed: int,
    snapshots: Sequence[int] = (),
    **how: Any,
) -> TrainedNetwork:
    """Train a dense ReLU network; `how` goes to `fit`."""
    torch = import_torch()
    module, generator = _dense(sizes, seed)
    kept: dict[int, tuple[Arrays, Arrays]] = {}

    def keep(epoch: int) -> None:
        if epoch in snapshots:
            kept[epoch] = _arrays(module)

    data = torch.from_numpy(samples), torch.from_numpy(targets)
    fit(module, *data, loss, generator, after_epoch=keep, **how)
    return TrainedNetwork(*_arrays(module), kept)


def _samples(X: ArrayLike, sizes: Sequence[int]) -> NDArray[np.float32]:
    samples = np.array(X, dtype=np.float32)
    if samples.ndim != 2 or len(samples) == 0 or samples.shape[1] != sizes[0]:
        raise ProblemError(
            f"samples have shape {samples.shape}; layer sizes {tuple(sizes)} need (n, {sizes[0]})"
        )
    return samples


def _dense(sizes: Sequence[int], seed: int) -> tuple[Any, Any]:
    """Dense ReLU network with PyTorch's default initial weights, and a generator for shuffling."""
    torch = import_torch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[Any] = []
        for inputs, units in pairwise(sizes):
            layers += [torch.nn.Linear(inputs, units), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]), torch.Generator().manual_seed(seed)


def _arrays(module: Any) -> tuple[Arrays, Arrays]:
    values = [p.detach().numpy().copy() for p in module.parameters()]
    return values[0::2], values[1::2]
