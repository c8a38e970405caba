"""Networks of the size that people have: upper ends and their CPU seconds, method by method.

Usage::

    python -m experiments scale [--networks m100x2 ...] [--methods crown sdp bnb] [--time 60]
                                [--shared FOLDER]

Reads FOLDER/scale (default: ../shared beside the repository): ONNX networks with a centre each, and
``values.json`` with radii, the best lower ends known and the values of auto_LiRPA's bound of the
Clarke Jacobian (CROWN and alpha-CROWN).  Prints one line a network, radius and method: the
interval, CPU and wall seconds, the seconds to the first interval that is not looser than theirs,
and the peak of memory so far.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reference import SHARED
from lipyomo import Box, LipschitzProblem, Network, load, solve

MEGABYTES = 1024.0
"""Units of ``ru_maxrss`` in a megabyte (kilobytes, as Linux counts them)."""


def cases(
    folder: Path, wanted: Sequence[str]
) -> Iterator[tuple[str, LipschitzProblem, dict[str, Any]]]:
    """Every network and radius with values to compare with."""
    networks: dict[str, tuple[Network, Any]] = {}
    for row in json.loads((folder / "values.json").read_text()):
        name, radius = row["network"], float(row["radius"])
        if wanted and name not in wanted:
            continue
        if name not in networks:
            centre = np.load(folder / f"{name}.npy").reshape(-1)
            networks[name] = load(folder / f"{name}.onnx"), centre
        network, centre = networks[name]
        box = Box(centre - radius, centre + radius)
        if "functional" in row["norms"]:
            c = np.zeros(network.output_dim)
            c[:2] = 1.0, -1.0
            problem = LipschitzProblem(network, box, functional=c)
        else:
            problem = LipschitzProblem(network, box, "linf", "linf")
        yield f"{name} {radius:.4f} {problem.describe_norms()}", problem, row


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m experiments scale")
    parser.add_argument("--networks", nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=["crown", "sdp", "bnb"])
    parser.add_argument("--time", type=float, default=60.0, help="seconds a run")
    parser.add_argument("--shared", type=Path, default=SHARED)
    asked = parser.parse_args(words)
    for case, problem, row in cases(asked.shared / "scale", asked.networks):
        others = [row[key] for key in row if key.startswith("auto_LiRPA")]
        theirs = min((other["upper"] for other in others), default=math.inf)
        print(f"{case:44s} theirs {theirs:10.3f}   attained {row['best lower known'] or 0.0:9.3f}")
        for method in asked.methods:
            wall, cpu = time.perf_counter(), time.process_time()
            result = solve(problem, method, time_limit=asked.time)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            first = next(
                (at for at, _, high in result.history if high <= theirs * 1.0001), math.nan
            )
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTES
            print(
                f"    {method:8s} [{result.lower:.6g}, {result.upper:.6g}] {result.status:10s} "
                f"{cpu:7.2f} s CPU {wall:7.2f} s   as tight as theirs after {first:.2f} s   "
                f"{memory:.0f} MB",
                flush=True,
            )
