"""auto_LiRPA as a tool of the benchmark, where it is installed; prints its upper bound.

python -m experiments.benchmark.lirpa_tool NET.onnx --lower L.npy --upper U.npy --norm linf
    [--functional C,...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.lirpa import has_lirpa, lirpa_bound


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="lirpa_tool", description="Bounds by auto_LiRPA.")
    parser.add_argument("network", type=Path)
    parser.add_argument("--lower", type=np.load, required=True)
    parser.add_argument("--upper", type=np.load, required=True)
    parser.add_argument("--norm", required=True)
    parser.add_argument("--outputs", type=int, required=True)
    parser.add_argument("--functional", default="")
    given = parser.parse_args(words)
    radii = (given.upper - given.lower) / 2
    if not has_lirpa() or given.norm != "linf" or np.ptp(radii) > 1e-9 * radii.max():
        print("it takes balls of the norm linf, and has to be installed", file=sys.stderr)
        return 1
    text = [float(c) for c in given.functional.split(",") if c]
    functionals = np.array([text]) if text else np.eye(given.outputs)
    centre = (given.upper + given.lower) / 2
    bound, _ = lirpa_bound(given.network, centre, float(radii.max()), functionals, optimise=True)
    print(bound)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
