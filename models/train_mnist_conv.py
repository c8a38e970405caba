"""Train two small convolutional MNIST networks; not in the papers, they exercise the importer.

    python -m models.train_mnist_conv --mnist DIR

- ``mnist_conv``: ten digits; AveragePool 28 -> 14, Conv 1 -> 6 (5x5, stride 3), ReLU, Conv 6 -> 12
  (2x2, stride 2), ReLU, Flatten, Gemm 48 -> 10: 144 units.
- ``mnist17_maxpool``: 1 against 7; AveragePool 28 -> 7, Conv 1 -> 3 (2x2), MaxPool 2, ReLU,
  Flatten, Gemm 27 -> 10, ReLU, Gemm 10 -> 2: 37 ReLUs and 27 maxima of four.

Three quarters of MNIST's *test* set train them, the rest is held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from experiments.mnist import held_out
from experiments.training import fit
from experiments.training.export import export
from models import mnist_data
from models.dense import accuracy
from models.provenance import HERE, Training, save

SHAPE = (1, 28, 28)


def conv_net() -> nn.Sequential:
    return nn.Sequential(
        nn.AvgPool2d(2),
        nn.Conv2d(1, 6, 5, stride=3),
        nn.ReLU(),
        nn.Conv2d(6, 12, 2, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def maxpool_net() -> nn.Sequential:
    return nn.Sequential(
        nn.AvgPool2d(4),
        nn.Conv2d(1, 3, 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(27, 10),
        nn.ReLU(),
        nn.Linear(10, 2),
    )


@dataclass(frozen=True)
class Recipe:
    """One network: what it is called, what it learns, how long, and how it is exported."""

    name: str
    make: Callable[[], nn.Sequential]
    architecture: str
    digits: tuple[int, ...]
    batch_size: int
    images: str
    per_class: int
    exporter: str


RECIPES = (
    Recipe(
        name="mnist_conv",
        make=conv_net,
        architecture="AveragePool 14x14, Conv 6@5x5/3, Conv 12@2x2/2, 10; ReLU",
        digits=tuple(range(10)),
        batch_size=64,
        images="mnist10_images.npz",
        per_class=2,
        exporter="dynamo",
    ),
    Recipe(
        name="mnist17_maxpool",
        make=maxpool_net,
        architecture="AveragePool 7x7, Conv 3@2x2, MaxPool 3x3, 10, 2; ReLU",
        digits=(1, 7),
        batch_size=16,
        images="mnist17_images.npz",
        per_class=20,
        exporter="torchscript",
    ),
)
EPOCHS = 20


def train(recipe: Recipe, mnist: Path, out: Path) -> None:
    split = held_out(mnist, recipe.digits)
    rows = mnist_data.ship(split, recipe.per_class, out / recipe.images)
    torch.manual_seed(0)
    module = recipe.make()
    fit(
        module,
        torch.from_numpy(split.images).reshape(-1, *SHAPE),
        torch.from_numpy(split.labels),
        nn.functional.cross_entropy,
        torch.Generator().manual_seed(0),
        epochs=EPOCHS,
        batch_size=recipe.batch_size,
    )
    samples = split.held_images.reshape(-1, *SHAPE)
    held = accuracy(module, samples, split.held_labels)
    right = round(len(rows) * accuracy(module, samples[rows], split.held_labels[rows]))
    digits = "ten digits" if len(recipe.digits) == 10 else "1 against 7"
    training = Training(
        data=f"MNIST test set, {digits}: {len(split.images)} images to train, "
        f"{len(split.held_images)} held out",
        architecture=recipe.architecture,
        training=f"cross-entropy, Adam 1e-3, {EPOCHS} epochs, batches of {recipe.batch_size}, "
        "seed 0",
        quality=f"{held:.2%} held out; {right} of {len(rows)} shipped images",
        domain="[0, 1]^(1 x 28 x 28)",
        script="python -m models.train_mnist_conv --mnist DIR",
        accuracy=held,
        shipped_right=right,
        images=recipe.images,
    )
    save(export(module, SHAPE, recipe.exporter), recipe.name, training, out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train small convolutional MNIST networks.")
    parser.add_argument("--mnist", type=Path, required=True, help="folder of the t10k files")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    options = parser.parse_args()
    for recipe in RECIPES:
        train(recipe, options.mnist, options.out)


if __name__ == "__main__":
    main()
