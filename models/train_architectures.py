"""Train the series of widths and depths of the LipMIP paper's Figure 5 (appendix F.3).

    python models/train_architectures.py --out DIR

300 points of the unit square, 10 leaders, 2 classes; 200 epochs of Adam 1e-3 on cross-entropy, no
penalty; [2, C, C, C, 2] for each width C and [2] + [20] * C + [2] for each depth C. The paper shows
the values of C only as an axis; batches of 32 are not in the paper.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dense import accuracy, dense_module
from lipyomo.training import leaders_dataset, train_classifier
from provenance import Training, export, save

WIDTHS = (5, 10, 20, 40, 60, 80)
DEPTHS = (1, 2, 3, 4, 5, 6)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train networks of growing width and depth.")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--depths", type=int, nargs="*", default=DEPTHS)
    parser.add_argument("--out", type=Path, required=True, help="where to write")
    options = parser.parse_args()

    data = leaders_dataset(2, 300, 10, 2, seed=0)
    fresh = leaders_dataset(2, 2000, 10, 2, seed=1).points
    series = {f"width_{c:03d}": (2, c, c, c, 2) for c in options.widths}
    series |= {f"depth_{c:02d}": (2, *(20,) * c, 2) for c in options.depths}
    for name, sizes in series.items():
        trained = train_classifier(
            sizes, data.points, data.labels, epochs=200, batch_size=32, seed=0
        )
        module = dense_module(trained)
        seen = accuracy(module, data.points, data.labels)
        held = accuracy(module, fresh, data.label(fresh))
        training = Training(
            data="leaders: 300 points in [0, 1]^2, 10 leaders, 2 classes, seed 0",
            architecture="-".join(map(str, sizes)) + ", ReLU",
            training="cross-entropy, Adam 1e-3, 200 epochs, batches of 32, seed 0",
            quality=f"{seen:.2%} of the training points, {held:.2%} of 2000 fresh points",
            domain="[0, 1]^2",
            script="python models/train_architectures.py --out DIR",
            accuracy=held,
        )
        save(export(module, (2,)), name, training, options.out)


if __name__ == "__main__":
    main()
