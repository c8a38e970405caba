"""Few inputs on wide domains: a network of ACAS Xu over the boxes of its properties.

Usage::

    python -m experiments few [NETWORK.onnx] [--time SECONDS]

Measures the rows of docs/scale.md, in CPU seconds of one thread: the constants from linf to linf
and from l2 to l2 over the boxes of properties 1 and 3, and the ranges of all outputs over those of
properties 1 to 4 (1 and 2 have the same).  The default network is ``onnx/acasxu_1_1.onnx`` of the
shared folder; others of VNN-COMP's are measured alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product

import numpy as np

from experiments.reference import SHARED
from lipyomo import Box, LipschitzProblem, load, solve, value_range

BOXES = {
    "1": ([0.6, -0.5, -0.5, 0.45, -0.5], [0.6798577687, 0.5, 0.5, 0.5, -0.45]),
    "3": (
        [-0.303531156, -0.009549297, 0.493380324, 0.3, 0.3],
        [-0.298552812, 0.009549297, 0.5, 0.5, 0.5],
    ),
    "4": (
        [-0.303531156, -0.009549297, 0.0, 0.318181818, 0.083333333],
        [-0.298552812, 0.009549297, 0.0, 0.5, 0.166666667],
    ),
}
"""Ends of the inputs, by property."""


def main(words: Sequence[str]) -> None:
    """Print a line a row; see the module."""
    parser = argparse.ArgumentParser(prog="experiments few", description=__doc__)
    parser.add_argument("network", nargs="?", default=str(SHARED / "onnx" / "acasxu_1_1.onnx"))
    parser.add_argument("--time", type=float, default=300.0, help="seconds a constant, or an end")
    options = parser.parse_args(words)
    network = load(options.network)
    domains = {name: Box(np.array(low), np.array(high)) for name, (low, high) in BOXES.items()}
    for norm, name in product(("linf", "l2"), ("1", "3")):
        problem = LipschitzProblem(network, domains[name], norm, norm)
        began = time.process_time()
        found = solve(problem, time_limit=options.time, workers=1)
        spent = time.process_time() - began
        ends = f"[{found.lower:.8g}, {found.upper:.8g}]"
        print(f"property {name}: {norm} constant {ends} {found.status}, {spent:.1f} s", flush=True)
    for name, domain in domains.items():
        began, exact = time.process_time(), 0
        for row in np.eye(network.output_dim):
            values = value_range(network, domain, row, time_limit=options.time, workers=1)
            exact += values.status.value == "exact"
        spent = time.process_time() - began
        print(f"property {name}: ranges, {exact} of {network.output_dim} exact, {spent:.1f} s")
