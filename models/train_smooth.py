"""Train the exchanger of `train_surrogate` with smooth units; not in the papers.

    python -m models.train_smooth

- ``exchanger_tanh``: 2-16-16-1 with tanh units;
- ``exchanger_silu``: 2-16-16-1 with SiLU units, which the exporter writes as ``x * Sigmoid(x)``.

Both take N and c themselves, as ``exchanger`` does: the same function by other units.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from experiments.training import fit
from experiments.training.export import export
from models.dense import Standardise
from models.provenance import HERE, Training, save
from models.train_surrogate import HIGH, LOW, effectiveness


def train(activation: type[nn.Module], name: str, title: str, out: Path) -> None:
    """Train and save one network."""
    rng = np.random.default_rng(0)
    inputs, fresh = (rng.uniform(LOW, HIGH, (count, 2)) for count in (4000, 20000))
    torch.manual_seed(0)
    module = nn.Sequential(
        Standardise((LOW + HIGH) / 2, (HIGH - LOW) / 2),
        *(nn.Linear(2, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, 1)),
    )
    fit(
        module,
        torch.tensor(inputs, dtype=torch.float32),
        torch.tensor(effectiveness(inputs)[:, None], dtype=torch.float32),
        nn.functional.mse_loss,
        torch.Generator().manual_seed(0),
        epochs=200,
        lr=1e-2,
        batch_size=64,
        cosine=True,
    )
    with torch.no_grad():
        values = module(torch.tensor(fresh, dtype=torch.float32)).numpy()[:, 0]
    error = np.abs(values - effectiveness(fresh))
    training = Training(
        data="counter-flow heat-exchanger effectiveness, 4000 uniform samples, seed 0",
        architecture=f"2-16-16-1, {title}, behind a standardisation",
        training="mean squared error, Adam 1e-2 with cosine decay, 200 epochs, batches of 64, "
        "seed 0",
        quality=f"mean error {error.mean():.4f}, largest {error.max():.3f} on 20000 fresh points",
        domain="[0.2, 5] x [0, 0.95]",
        script="python -m models.train_smooth",
    )
    save(export(module, (2,)), name, training, out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train smooth design surrogates.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    out = parser.parse_args().out
    train(nn.Tanh, "exchanger_tanh", "tanh", out)
    train(nn.SiLU, "exchanger_silu", "SiLU", out)


if __name__ == "__main__":
    main()
