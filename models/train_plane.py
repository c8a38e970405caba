"""Train [2, 20, 40, 20, 2] networks under four regularisers (LipMIP paper, Figures 1 and 6).

    python models/train_plane.py

256 points of the unit square, 20 leaders, 2 classes, Adam 1e-3, 1,000 epochs; cross-entropy alone
(``ce``), with FGSM examples of step 0.1 in place of the clean ones (``fgsm``), with an l1 penalty
of 1e-4 (``l1``) or an l2 penalty (sum of squares) of 1e-3 (``l2``). The paper takes a snapshot
every 25 epochs; `--every 25 --out DIR` writes them all, and only epochs 25, 250 and 1000 are
shipped. Not printed, chosen here: a separation of 0.04, batches of 32, penalties on weight matrices
only, FGSM examples not clipped to the square.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dense import accuracy, dense_module
from lipyomo.training import leaders_dataset, train_classifier
from provenance import HERE, Training, export, save

SIZES = (2, 20, 40, 20, 2)
EPOCHS = 1000
SEPARATION = 0.04
SHIPPED = (25, 250, 1000)
SCHEMES = {
    "ce": ("cross-entropy", 0.0, 0.0, 0.0),
    "fgsm": ("cross-entropy on FGSM examples, step 0.1", 0.1, 0.0, 0.0),
    "l1": ("cross-entropy + 1e-4 l1", 0.0, 1e-4, 0.0),
    "l2": ("cross-entropy + 1e-3 l2", 0.0, 0.0, 1e-3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Train 2-D networks under four regularisers.")
    parser.add_argument("--every", type=int, help="snapshot every so many epochs")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    options = parser.parse_args()
    snapshots = range(options.every, EPOCHS + 1, options.every) if options.every else SHIPPED

    data = leaders_dataset(2, 256, 20, 2, min_separation=SEPARATION, seed=0)
    fresh = np.random.default_rng(1).random((2000, 2))
    for scheme, (loss, fgsm, l1, l2) in SCHEMES.items():
        trained = train_classifier(
            SIZES,
            data.points,
            data.labels,
            epochs=EPOCHS,
            l1=l1,
            l2=l2,
            fgsm=fgsm,
            batch_size=32,
            seed=0,
            snapshots=snapshots,
        )
        for epoch in snapshots:
            module = dense_module(trained, epoch)
            seen = accuracy(module, data.points, data.labels)
            held = accuracy(module, fresh, data.label(fresh))
            training = Training(
                data=f"leaders: 256 points in [0, 1]^2, separation {SEPARATION}, 20 leaders, "
                "2 classes, seed 0",
                architecture="2-20-40-20-2, ReLU",
                training=f"{loss}, Adam 1e-3, {epoch} epochs, batches of 32, seed 0",
                quality=f"{seen:.2%} of the training points, {held:.2%} of 2000 fresh points",
                domain="[0, 1]^2",
                script="python models/train_plane.py",
                accuracy=held,
            )
            save(export(module, (2,)), f"plane/{scheme}_{epoch:04d}", training, options.out)


if __name__ == "__main__":
    main()
