"""Train a design surrogate [2, 16, 16, 1] for worked Pyomo models; not in the papers.

    python -m models.train_surrogate

The function is the effectiveness of a counter-flow heat exchanger,

    e(N, c) = (1 - exp(-N (1 - c))) / (1 - c exp(-N (1 - c))),

with N = 0.2 to 5 transfer units and the ratio c = 0 to 0.95 of the capacity rates; all are
dimensionless. The file takes N and c themselves: Sub and Div nodes scale them to [-1, 1].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.training import train_regressor
from experiments.training.export import export
from models.dense import Standardise, dense_module
from models.provenance import HERE, Training, save

LOW, HIGH = np.array([0.2, 0.0]), np.array([5.0, 0.95])


def effectiveness(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counter-flow effectiveness.

    Parameters
    ----------
    inputs : ndarray, shape (n, 2)
        Numbers of transfer units and ratios of capacity rates (below 1).

    Returns
    -------
    ndarray, shape (n,)
        Heat exchanged, as a share of what a perfect exchanger would.
    """
    units, ratio = inputs.T
    decay = np.exp(-units * (1.0 - ratio))
    return np.asarray((1.0 - decay) / (1.0 - ratio * decay))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a design surrogate.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    out = parser.parse_args().out

    rng = np.random.default_rng(0)
    centre, half = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    inputs, fresh = (rng.uniform(LOW, HIGH, (count, 2)) for count in (4000, 20000))
    trained = train_regressor(
        (2, 16, 16, 1),
        (inputs - centre) / half,
        effectiveness(inputs),
        epochs=300,
        lr=5e-3,
        batch_size=64,
        seed=0,
    )
    module = torch.nn.Sequential(Standardise(centre, half), *dense_module(trained))
    with torch.no_grad():
        values = module(torch.tensor(fresh, dtype=torch.float32)).numpy()[:, 0]
    error = np.abs(values - effectiveness(fresh))
    training = Training(
        data="counter-flow heat-exchanger effectiveness, 4000 uniform samples, seed 0",
        architecture="2-16-16-1, ReLU, behind a standardisation",
        training="mean squared error, Adam 5e-3 with cosine decay, 300 epochs, batches of 64, "
        "seed 0",
        quality=f"mean error {error.mean():.4f}, largest {error.max():.3f} on 20000 fresh points",
        domain="[0.2, 5] x [0, 0.95]",
        script="python -m models.train_surrogate",
    )
    save(export(module, (2,)), "exchanger", training, out)


if __name__ == "__main__":
    main()
