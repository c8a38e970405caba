"""Residual networks in PyTorch: fully connected blocks with a skip, as deep test cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.training.loop import fit, import_torch
from lipyomo.base.errors import ProblemError


def train_residual(
    X: ArrayLike,
    y: ArrayLike,
    *,
    width: int,
    blocks: int,
    epochs: int,
    lr: float = 1e-3,
    l2: float = 0.0,
    batch_size: int = 128,
    seed: int = 0,
) -> Any:
    """Train a residual ReLU classifier on cross-entropy.

    A first layer ``h = relu(W x + b)`` is followed by blocks
    ``h <- relu(h + V relu(U h + a) + c)``, and these by an affine layer.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Samples.
    y : array_like of int, shape (n,)
        Classes, from 0.
    width, blocks : int
        Units of each layer, and number of blocks.
    epochs : int
        Passes over the data.
    lr, l2, batch_size
        See `experiments.training.train.train_classifier`.
    seed : int, default 0
        Seed of the initial weights and of the shuffling.

    Returns
    -------
    torch.nn.Module
        Ready for either of PyTorch's ONNX exporters.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ProblemError
        If there is no class for each sample.
    """
    torch = import_torch()
    samples, classes = np.array(X, dtype=np.float32), np.asarray(y, dtype=np.int64)
    if samples.ndim != 2 or classes.shape != (len(samples),):
        raise ProblemError(
            f"samples of shape {samples.shape} need one class each, got {classes.shape}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _residual(torch, samples.shape[1], width, blocks, int(classes.max()) + 1)
    fit(
        module,
        torch.from_numpy(samples),
        torch.from_numpy(classes),
        torch.nn.functional.cross_entropy,
        torch.Generator().manual_seed(seed),
        epochs=epochs,
        lr=lr,
        l2=l2,
        batch_size=batch_size,
    )
    return module.eval()


def _residual(torch: Any, inputs: int, width: int, blocks: int, outputs: int) -> Any:
    """The module with PyTorch's initial weights."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined]
        """A block with a skip."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(width, width)
            self.outer = nn.Linear(width, width)

        def forward(self, h: Any) -> Any:
            """``relu(h + V relu(U h + a) + c)``."""
            return torch.relu(h + self.outer(torch.relu(self.inner(h))))

    first = [nn.Linear(inputs, width), nn.ReLU()]
    return nn.Sequential(*first, *(Block() for _ in range(blocks)), nn.Linear(width, outputs))
