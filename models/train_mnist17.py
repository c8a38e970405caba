"""Train MNIST 1-against-7 networks [784, 20, 20, 20, 2] (LipMIP paper, appendix F.2).

    python -m models.train_mnist17 --mnist DIR

Adam with learning rate 1e-3, cross-entropy, an l1 penalty of 1e-5, 10 epochs, as printed. What
differs: the data are three quarters of the 1s and 7s of MNIST's *test* set (1,622 images instead of
13,007), so batches hold 16 images: about as many Adam steps as the paper's data give with 128.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.mnist import held_out
from experiments.recipes import DIGITS, train_digits
from experiments.training.export import export
from models import mnist_data
from models.dense import accuracy, dense_module
from models.provenance import HERE, Training, save

IMAGES = "mnist17_images.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description="Train MNIST 1-against-7 networks.")
    parser.add_argument("--mnist", type=Path, required=True, help="folder of the t10k files")
    parser.add_argument("--seeds", type=int, default=3, help="how many networks")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    options = parser.parse_args()

    split = held_out(options.mnist, (1, 7))
    rows = mnist_data.ship(split, 20, options.out / IMAGES)
    for seed in range(options.seeds):
        trained = train_digits(split.images, split.labels, batch_size=16, seed=seed)
        module = dense_module(trained)
        held = accuracy(module, split.held_images, split.held_labels)
        right = round(
            len(rows) * accuracy(module, split.held_images[rows], split.held_labels[rows])
        )
        training = Training(
            data=f"MNIST test set, 1 against 7: {len(split.images)} images to train, "
            f"{len(split.held_images)} held out",
            architecture="-".join(map(str, DIGITS)) + ", ReLU",
            training=f"cross-entropy + 1e-5 l1, Adam 1e-3, 10 epochs, batches of 16, seed {seed}",
            quality=f"{held:.2%} held out; {right} of {len(rows)} shipped images",
            domain="[0, 1]^784",
            script="python -m models.train_mnist17 --mnist DIR",
            accuracy=held,
            shipped_right=right,
            images=IMAGES,
        )
        save(export(module, (784,)), f"mnist17_s{seed}", training, options.out)


if __name__ == "__main__":
    main()
