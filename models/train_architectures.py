"""Train the series of widths and depths of the LipMIP paper's Figure 5 (appendix F.3).

    python -m models.train_architectures --out DIR

300 points of the unit square, 10 leaders, 2 classes; 200 epochs of Adam 1e-3 on cross-entropy, no
penalty; [2, C, C, C, 2] for each width C and [2] + [20] * C + [2] for each depth C. The paper shows
the values of C only as an axis; batches of 32 are not in the paper.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.recipes import DEPTHS, WIDTHS, architecture
from experiments.training import leaders_dataset
from experiments.training.export import export
from models.dense import accuracy, dense_module
from models.provenance import Training, save


def main() -> None:
    parser = argparse.ArgumentParser(description="Train networks of growing width and depth.")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--depths", type=int, nargs="*", default=DEPTHS)
    parser.add_argument("--out", type=Path, required=True, help="where to write")
    options = parser.parse_args()

    fresh = leaders_dataset(2, 2000, 10, 2, seed=1).points
    series = {f"width_{c:03d}": architecture((c,) * 3) for c in options.widths}
    series |= {f"depth_{c:02d}": architecture((20,) * c) for c in options.depths}
    for name, recipe in series.items():
        data = recipe.data()
        trained = recipe.train()
        module = dense_module(trained)
        seen = accuracy(module, data.points, data.labels)
        held = accuracy(module, fresh, data.label(fresh))
        training = Training(
            data=recipe.data_words,
            architecture=recipe.architecture,
            training=recipe.training_words,
            quality=f"{seen:.2%} of the training points, {held:.2%} of 2000 fresh points",
            domain=recipe.domain_words,
            script="python -m models.train_architectures --out DIR",
            accuracy=held,
        )
        save(export(module, (2,)), name, training, options.out)


if __name__ == "__main__":
    main()
