"""Train [2, 20, 40, 20, 2] networks under four regularisers (LipMIP paper, Figures 1 and 6).

    python -m models.train_plane

256 points of the unit square, 20 leaders, 2 classes, Adam 1e-3, 1,000 epochs; cross-entropy alone
(``ce``), with FGSM examples of step 0.1 in place of the clean ones (``fgsm``), with an l1 penalty
of 1e-4 (``l1``) or an l2 penalty (sum of squares) of 1e-3 (``l2``): `experiments.recipes.PLANE`.
The paper takes a snapshot every 25 epochs; `--every 25 --out DIR` writes them all, and only epochs
25, 250 and 1000 are shipped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.recipes import PLANE
from experiments.training.export import export
from models.dense import accuracy, dense_module
from models.provenance import HERE, Training, save

SHIPPED = (25, 250, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train 2-D networks under four regularisers.")
    parser.add_argument("--every", type=int, help="snapshot every so many epochs")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    options = parser.parse_args()
    fresh = np.random.default_rng(1).random((2000, 2))
    for scheme, recipe in PLANE.items():
        data = recipe.data()
        every = options.every
        snapshots = range(every, recipe.epochs + 1, every) if every else SHIPPED
        trained = recipe.train(snapshots=snapshots)
        for epoch in snapshots:
            module = dense_module(trained, epoch)
            seen = accuracy(module, data.points, data.labels)
            held = accuracy(module, fresh, data.label(fresh))
            training = Training(
                data=recipe.data_words,
                architecture=recipe.architecture,
                training=replace(recipe, epochs=epoch).training_words,
                quality=f"{seen:.2%} of the training points, {held:.2%} of 2000 fresh points",
                domain=recipe.domain_words,
                script="python -m models.train_plane",
                accuracy=held,
            )
            save(export(module, (2,)), f"plane/{scheme}_{epoch:04d}", training, options.out)


if __name__ == "__main__":
    main()
