"""Values of elementary functions by ball arithmetic, for `networks/activations/elementary.py`.

Arguments are those that activations have: spread over all exponents, near zero, near the ends of
where values are normal numbers, and for waves near multiples of pi / 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from lipyomo.networks.activations.elementary import STORED
from lipyomo.networks.activations.rounding import ASSUMED

Floats = npt.NDArray[np.float64]

COUNT = 256
"""Arguments a function."""

BITS = 2400
"""Of the balls: enough for the smallest arguments, whose values differ from them by their cubes."""

NAMES = {"arctanh": "atanh"}
"""What Arb calls a function, where it has another name."""


def _spread(low: float, high: float, count: int, seed: int) -> Floats:
    """Positive numbers whose exponents to base 10 are spread over a range."""
    return np.asarray(10.0 ** np.random.default_rng(seed).uniform(low, high, count))


def _signed(numbers: Floats) -> Floats:
    return np.asarray(numbers * np.where(np.arange(numbers.size) % 2, 1.0, -1.0))


def arguments(name: str) -> Floats:
    """Arguments of a function."""
    seed = list(ASSUMED).index(name)

    def spread(low: float, high: float, count: int) -> Floats:
        return _spread(low, high, count, seed)

    if name in ("exp", "expm1"):
        ends = [0.0, -5e-324, -1e-300, -708.0, -708.5, -745.0, -746.0, -1e4]
        found = -np.concatenate([spread(-3, 2.85, 200), spread(-300, -3, 48)])
    elif name == "log1p":
        ends = [0.0, 5e-324, 1e-300, 1.0, 0.5, 2.0**-53, 2.0**-52, 1.0 - 2.0**-53]
        found = np.concatenate([spread(-8, 0, 200), spread(-300, -8, 48)])
    elif name == "arctanh":
        ends = [0.0, 5e-324, 1e-300, 0.5, -0.5, 1.0 - 2.0**-53, 2.0**-53 - 1.0, 1e-8]
        near = _signed(1.0 - spread(-15, -0.3, 68))
        found = np.concatenate(
            [_signed(spread(-3, -0.01, 132)), near, _signed(spread(-300, -3, 48))]
        )
    elif name in ("sin", "cos"):
        ends = [0.0, 5e-324, 1e-300, 2.0**20, -(2.0**20), 1e5, 0.5, -0.5]
        turns = np.rint(spread(0, 5.8, 88)) * (np.pi / 2.0)
        found = np.concatenate([_signed(spread(-4, 6.02, 160)), _signed(turns)])
    elif name == "erfc":
        ends = [0.0, 5e-324, 1e-300, 26.0, -26.0, 27.5, -6.0, 1.0]
        found = _signed(np.concatenate([spread(-3, 1.43, 200), spread(-300, -3, 48)]))
    else:
        ends = [0.0, 5e-324, 1e-300, 20.0, -20.0, 1e300, 0.625, -1.0]
        found = _signed(np.concatenate([spread(-3, 1.5, 200), spread(-300, -3, 48)]))
    points = np.concatenate([np.array(ends), found])
    assert points.size == COUNT
    return points


def value(name: str, z: float) -> tuple[float, float]:
    """The float64 number next to a function's value, and what it is short of."""
    with ctx.workprec(BITS):
        exact = getattr(arb(z), NAMES.get(name, name))()
        near = float(exact.mid())
        return near, float((exact - arb(near)).mid())


def table(at: Sequence[Floats] | None = None) -> Floats:
    """The array that is stored; for arguments of each function that are given, or its own."""
    rows = []
    for name, points in zip(ASSUMED, at or map(arguments, ASSUMED), strict=True):
        near, rest = zip(*(value(name, z) for z in points.tolist()), strict=True)
        rows.append([points, np.array(near), np.array(rest)])
    return np.array(rows)


def main(words: Sequence[str]) -> None:
    """Write the stored values anew."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments elementary", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--to", type=Path, default=STORED, metavar="FILE", help="where")
    asked = parser.parse_args(words)
    np.save(asked.to, table())
