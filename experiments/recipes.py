"""How the networks of the LipMIP paper are trained (appendix F), for ``models/`` and the tables.

The paper prints neither batch sizes nor separations, nor what the penalties act on; they are
chosen here: penalties on weight matrices only, FGSM examples not clipped to the cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from experiments.training import LeadersData, TrainedNetwork, leaders_dataset, train_classifier

EPOCH_SIZE = 2000
"""Points of the large "leaders" data sets, and of fresh ones for an accuracy."""


@dataclass(frozen=True)
class Recipe:
    """A dense ReLU classifier of the "leaders" data, trained by Adam 1e-3 on cross-entropy.

    Attributes
    ----------
    sizes : tuple of int
        Inputs, hidden layers, classes.
    points, leaders : int
    separation : float
        Least distance of two points.
    epochs, batch_size : int
    l1, l2 : float
        Penalties on the weights.
    fgsm : float
        Step of the FGSM examples that replace the clean ones.
    """

    sizes: tuple[int, ...]
    points: int
    leaders: int
    separation: float = 0.0
    epochs: int = 1000
    batch_size: int = 128
    l1: float = 0.0
    l2: float = 0.0
    fgsm: float = 0.0

    def data(self, seed: int = 0) -> LeadersData:
        """The data set of a seed."""
        return leaders_dataset(
            self.sizes[0],
            self.points,
            self.leaders,
            self.sizes[-1],
            min_separation=self.separation,
            seed=seed,
        )

    def train(self, seed: int = 0, snapshots: Sequence[int] = ()) -> TrainedNetwork:
        """Train on the data of `seed`, with initial weights of the same seed."""
        data = self.data(seed)
        return train_classifier(
            self.sizes,
            data.points,
            data.labels,
            epochs=self.epochs,
            batch_size=self.batch_size,
            l1=self.l1,
            l2=self.l2,
            fgsm=self.fgsm,
            seed=seed,
            snapshots=snapshots,
        )

    @property
    def architecture(self) -> str:
        """Layers, inputs first."""
        return "-".join(map(str, self.sizes)) + ", ReLU"

    @property
    def data_words(self) -> str:
        """The data in words, of seed 0."""
        apart = f", separation {self.separation:g}" if self.separation else ""
        return (
            f"leaders: {self.points} points in {self.domain_words}{apart}, {self.leaders} leaders, "
            f"{self.sizes[-1]} classes, seed 0"
        )

    @property
    def training_words(self) -> str:
        """The training in words, of seed 0."""
        loss = "cross-entropy" + (f" on FGSM examples, step {self.fgsm:g}" if self.fgsm else "")
        loss += "".join(
            f" + {_short(weight)} {name}"
            for name, weight in (("l1", self.l1), ("l2", self.l2))
            if weight
        )
        return f"{loss}, Adam 1e-3, {self.epochs} epochs, batches of {self.batch_size}, seed 0"

    @property
    def domain_words(self) -> str:
        """The cube."""
        return f"[0, 1]^{self.sizes[0]}"


def _short(weight: float) -> str:
    return f"{weight:.0e}".replace("e-0", "e-")


_PLANE = Recipe((2, 20, 40, 20, 2), 256, 20, 0.04, 1000, 32)
PLANE = {
    "ce": _PLANE,
    "l1": replace(_PLANE, l1=1e-4),
    "l2": replace(_PLANE, l2=1e-3),
    "fgsm": replace(_PLANE, fgsm=0.1),
}
"""Training schemes of Figures 1 and 6 (appendix F.2)."""

MANY_CLASSES = Recipe((8, 40, 40, 40, 100), EPOCH_SIZE, 200, 0.3, 2000, 32, l1=5e-4)
"""Table 5 (appendix F.3)."""


def synthetic(sizes: tuple[int, ...] = (10, 20, 30, 20, 2)) -> Recipe:
    """Networks of 10 inputs and 2 classes of Tables 1, 2 and 4 (appendix F.2)."""
    return Recipe(sizes, EPOCH_SIZE, 20, epochs=500)


def architecture(hidden: tuple[int, ...]) -> Recipe:
    """A plane network of Figure 5 (appendix F.3)."""
    return Recipe((2, *hidden, 2), 300, 10, epochs=200, batch_size=32)


WIDTHS = (5, 10, 20, 40, 60, 80)
DEPTHS = (1, 2, 3, 4, 5, 6)
"""Figure 5: (C, C, C) for each width C, C layers of 20 for each depth; the paper prints an axis."""

DIGITS = (784, 20, 20, 20, 2)
"""MNIST 1 against 7 (appendix F.2)."""

RANDOM = ((16, 16, 16, 2), (10, 10, 10, 1))
"""Random networks with He initialisation (appendix F.2)."""


def train_digits(
    images: ArrayLike, labels: ArrayLike, batch_size: int, seed: int
) -> TrainedNetwork:
    """Train MNIST 1 against 7: Adam 1e-3, cross-entropy, l1 penalty 1e-5, 10 epochs, as printed."""
    return train_classifier(
        DIGITS, images, labels, epochs=10, l1=1e-5, batch_size=batch_size, seed=seed
    )
