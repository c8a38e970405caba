"""Train a residual and a LeakyReLU network on leaders data; not in the papers.

    python -m models.train_small

- ``residual``: h = ReLU(A x), then ReLU(h + C ReLU(B h)), then 3 outputs; h has 12 entries and the
  skip is an Add of two branches.
- ``leaky``: [4, 16, 16, 3] with LeakyReLU of slope 0.1.

1,000 points, 15 leaders, 3 classes, cross-entropy, Adam 1e-3, 300 epochs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

from experiments.training import fit, leaders_dataset
from experiments.training.export import export
from models.dense import accuracy
from models.provenance import HERE, Training, save


class Residual(nn.Module):
    """A block of two dense layers around which its input skips."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.head = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Evaluate a batch."""
        skip = torch.relu(self.first(inputs))
        branch = self.outer(torch.relu(self.inner(skip)))
        return self.head(torch.relu(skip + branch))


def leaky_net() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, 16),
        nn.LeakyReLU(0.1),
        nn.Linear(16, 16),
        nn.LeakyReLU(0.1),
        nn.Linear(16, 3),
    )


def train(
    module: nn.Module, dim: int, name: str, architecture: str, exporter: str, out: Path
) -> None:
    data = leaders_dataset(dim, 1000, 15, 3, seed=0)
    fresh = leaders_dataset(dim, 2000, 15, 3, seed=1).points
    fit(
        module,
        torch.tensor(data.points, dtype=torch.float32),
        torch.from_numpy(data.labels),
        nn.functional.cross_entropy,
        torch.Generator().manual_seed(0),
        epochs=300,
        batch_size=32,
    )
    seen = accuracy(module, data.points, data.labels)
    held = accuracy(module, fresh, data.label(fresh))
    training = Training(
        data=f"leaders: 1000 points in [0, 1]^{dim}, 15 leaders, 3 classes, seed 0",
        architecture=architecture,
        training="cross-entropy, Adam 1e-3, 300 epochs, batches of 32, seed 0",
        quality=f"{seen:.2%} of the training points, {held:.2%} of 2000 fresh points",
        domain=f"[0, 1]^{dim}",
        script="python -m models.train_small",
        accuracy=held,
    )
    save(export(module, (dim,), exporter), name, training, out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a residual and a LeakyReLU network.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    out = parser.parse_args().out
    torch.manual_seed(0)
    train(Residual(6, 12, 3), 6, "residual", "6-12-(12-12 + skip)-3, ReLU", "dynamo", out)
    torch.manual_seed(0)
    train(leaky_net(), 4, "leaky", "4-16-16-3, LeakyReLU 0.1", "torchscript", out)


if __name__ == "__main__":
    main()
