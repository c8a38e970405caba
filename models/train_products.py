"""Train networks that multiply signals; not in the papers.

    python -m models.train_products

- ``lookup``: attention over two tokens of a key and a value each, which looks up the value of the
  larger key: 4 inputs;
- ``filter_gru``: a controller that reads the last four measurements of an angle, without rates, by
  a GRU of three states, and gives the torque of a linear law of angle and rate;
- ``exchanger_norm``: the exchanger of `train_surrogate` by tanh units behind a LayerNormalization.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from experiments.training import fit
from experiments.training.export import export
from models.dense import Standardise
from models.provenance import HERE, Training, save
from models.train_surrogate import HIGH, LOW, effectiveness

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Inputs (n, d) and values (n,)."""

SHARPNESS = 4.0
"""How sharply the larger key wins."""
STEP, GAINS = 0.05, (2.0, 0.6)
"""Seconds between measurements, and what the law makes of angle and rate."""


class Lookup(nn.Module):
    """Tokens that attend to each other, and the mean of what they find."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(2, 2) for _ in range(3))
        self.read = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of (key, value, key, value)."""
        tokens = x.reshape(-1, 2, 2)
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2)
        found = torch.softmax(scores, dim=-1) @ self.value(tokens)
        return self.read(found.mean(dim=1))


class Filter(nn.Module):
    """A GRU over four measurements, and a torque from its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.read = nn.GRU(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four angles, the latest one last."""
        states, _ = self.gru(x.reshape(-1, 4, 1))
        return self.read(states[:, -1])


def lookups(rng: np.random.Generator, count: int) -> Pair:
    """Tokens, and the values of their larger keys."""
    x = rng.uniform(-1.0, 1.0, (count, 4))
    share = 1.0 / (1.0 + np.exp(-SHARPNESS * (x[:, 0] - x[:, 2])))
    return x, share * x[:, 1] + (1.0 - share) * x[:, 3]


def measurements(rng: np.random.Generator, count: int) -> Pair:
    """Four angles in a row with a little noise, and the torque of the law."""
    angle, rate = rng.uniform(-0.8, 0.8, count), rng.uniform(-2.0, 2.0, count)
    before = STEP * np.arange(3, -1, -1)
    angles = angle[:, None] - rate[:, None] * before + rng.normal(0.0, 0.005, (count, 4))
    return angles, -GAINS[0] * angle - GAINS[1] * rate


def surfaces(rng: np.random.Generator, count: int) -> Pair:
    """Numbers of transfer units and capacity ratios, and effectiveness."""
    x = rng.uniform(LOW, HIGH, (count, 2))
    return x, effectiveness(x)


Samples = Callable[[np.random.Generator, int], Pair]
"""Draws so many."""


def train(
    module: nn.Module,
    samples: Samples,
    name: str,
    data: str,
    architecture: str,
    domain: str,
    epochs: int,
    out: Path,
) -> None:
    """Train and save one network."""
    inputs, targets = samples(np.random.default_rng(0), 4000)
    fresh, wanted = samples(np.random.default_rng(1), 20000)
    fit(
        module,
        torch.tensor(inputs, dtype=torch.float32),
        torch.tensor(targets[:, None], dtype=torch.float32),
        nn.functional.mse_loss,
        torch.Generator().manual_seed(0),
        epochs=epochs,
        lr=1e-2,
        batch_size=64,
        cosine=True,
    )
    with torch.no_grad():
        values = module(torch.tensor(fresh, dtype=torch.float32)).numpy()[:, 0]
    error = np.abs(values - wanted)
    training = Training(
        data=f"{data}, 4000 samples, seed 0",
        architecture=architecture,
        training=f"mean squared error, Adam 1e-2 with cosine decay, {epochs} epochs, batches of "
        "64, seed 0",
        quality=f"mean error {error.mean():.4f}, largest {error.max():.3f} on 20000 fresh points",
        domain=domain,
        script="python -m models.train_products",
    )
    save(export(module, (inputs.shape[1],)), name, training, out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train networks that multiply signals.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    out = parser.parse_args().out
    torch.manual_seed(0)
    train(
        Lookup(),
        lookups,
        "lookup",
        "the value of the larger of two keys, softly",
        "attention of two tokens of 2, then linear",
        "[-1, 1]^4",
        100,
        out,
    )
    train(
        Filter(),
        measurements,
        "filter_gru",
        "a linear law of angle and rate from four angles, 0.05 s apart, noise 0.005",
        "GRU of 3 states over 4 steps, then linear",
        "[-1, 1]^4",
        100,
        out,
    )
    standard = Standardise((LOW + HIGH) / 2, (HIGH - LOW) / 2)
    units = nn.Linear(2, 12), nn.LayerNorm(12), nn.Tanh(), nn.Linear(12, 1)
    train(
        nn.Sequential(standard, *units),
        surfaces,
        "exchanger_norm",
        "counter-flow heat-exchanger effectiveness",
        "2-12-1, LayerNorm and tanh, behind a standardisation",
        "[0.2, 5] x [0, 0.95]",
        100,
        out,
    )


if __name__ == "__main__":
    main()
