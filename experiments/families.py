"""The search family by family: CPU seconds to one per cent and to the end, nodes, the interval.

Usage::

    python -m experiments families [--cases NAME ...] [--time 30] [--vs PYTHON] [--runs 1]
                                   [--shared FOLDER]

Every case runs in a process of its own, with one thread.  With ``--vs``, each is also run with
another Python (of another version of lipyomo), in turn, and the median ratio of each family is
printed.  Networks of other groups are read from FOLDER and left out if it is absent.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import lipyomo
from experiments.problems import DIFFERENCE, Build, digit, he, normed, own, random, scalar
from experiments.reference import ROOT, SHARED
from lipyomo import Box, LipschitzProblem, Polytope, ball
from lipyomo.methods import methods

if TYPE_CHECKING:  # earlier versions, with which this one is compared, have it elsewhere
    from lipyomo.problems.result import Progress

NEAR = 0.01


@dataclass(frozen=True)
class Run:
    """What one run of a case gave.

    Attributes
    ----------
    lower, upper : float
    status : str
    nodes : int
    near, cpu : float
        CPU seconds until the gap was one per cent (infinite if it never was), and to the end.
    """

    lower: float
    upper: float
    status: str
    nodes: int
    near: float
    cpu: float


def deep(seed: int, half: float) -> Build:
    """A random [10, 20, 30, 20, 2] network on a cube about the middle of the unit cube."""
    network = he((10, 20, 30, 20, 2), seed)
    box = Box(0.5 - half, 0.5 + half, 10)
    return lambda _: LipschitzProblem(network, box, functional=DIFFERENCE)


def large(name: str, radius: float) -> Build:
    """A ball about the centre of one of the larger networks."""

    def build(shared: Path) -> LipschitzProblem:
        center = np.load(shared / "scale" / f"{name}.npy").reshape(-1)
        network = lipyomo.load(shared / "scale" / f"{name}.onnx")
        return LipschitzProblem(network, ball(center, radius, "linf"), "linf", "linf")

    return build


def cut(seed: int) -> Build:
    """A random network on the unit cube with its corner cut off."""
    rows, ends = np.vstack([np.eye(16), -np.eye(16), np.ones((1, 16))]), np.zeros(33)
    ends[:16], ends[32] = 1.0, 6.0
    domain = Polytope(rows, ends)
    return lambda _: LipschitzProblem(he((16, 16, 16, 2), seed), domain, functional=DIFFERENCE)


CASES: dict[str, dict[str, Build]] = {
    "reference": {
        "lipmip_A": scalar("lipmip_A_16-16-16-2_cube_s0"),
        "lipmip_C": scalar("lipmip_C_2-20-40-20-2_cube_s0"),
        "lipbab l1": normed("lipbab_sd_10-20-15-10-3", "l1"),
        "lipbab l2": normed("lipbab_sd_10-20-15-10-3", "l2"),
        "lipbab linf": normed("lipbab_sd_10-20-15-10-3", "linf"),
    },
    "Chen": {
        "chen 20_24 0": scalar("chen_20_24_seed0"),
        "chen 20_24 2": scalar("chen_20_24_seed2"),
        "chen 80_80 1": scalar("chen_80_80_seed1"),
        "chen 80_80 2": scalar("chen_80_80_seed2"),
    },
    "random": {f"random {seed}": random(seed) for seed in (0, 2, 3, 5, 7, 8)},
    "deep": {
        "deep 1, .15": deep(1, 0.15),
        "deep 2, .2": deep(2, 0.2),
        "deep 3, .15": deep(3, 0.15),
        "deep 4, .15": deep(4, 0.15),
    },
    "trained": {
        "plane ce_1000": own("plane/ce_1000.onnx", 2),
        "synthetic10": own("synthetic10.onnx", 10),
        "random10_s0": own("random10_s0.onnx", 10, functional=False),
        "digit 0": digit(0, "linf", 0.1),
        "digit 3": digit(3, "linf", 0.1),
    },
    "balls and polytopes": {
        "digit 1, l2": digit(1, "l2", 0.4),
        "digit 2, l1": digit(2, "l1", 5.0),
        "cut 0": cut(0),
        "cut 3": cut(3),
    },
    "all of R^d": {
        "iris": normed("exlipbab_iris_4-6-6-3", "l2", everywhere=True),
        "wine": normed("exlipbab_wine_11-12-12-1", "l2", everywhere=True),
        "wine, linf": normed("exlipbab_wine_11-12-12-1", "linf", everywhere=True),
        "chen 10_12 0": normed("chen_10_12_seed0", "linf", everywhere=True),
    },
    "scale": {
        "m100x2 1/255": large("m100x2", 1 / 255),
        "m256x3 1/255": large("m256x3", 1 / 255),
        "cnn 1/255": large("cnn_mnist", 1 / 255),
        "reg6 .3": large("reg6", 0.3),
    },
}
"""Builders by family and name."""

PROVED = ("lipmip_A", "lipbab l2", "random 2", "random 5", "plane ce_1000", "chen 20_24 2", "wine")
"""Cases whose upper ends are also proved, as a family of its own."""


def measure(problem: LipschitzProblem, limit: float) -> Run:
    """Solve a problem in this process, without the time that imports take."""
    methods()
    lipyomo.solve(LipschitzProblem(he((2, 2, 1), 0), Box(-1, 1, 2)), "bnb")  # imports, too
    near, began = math.inf, time.process_time()

    def watch(progress: Progress) -> None:
        nonlocal near
        if progress.upper - progress.lower <= NEAR * progress.upper:
            near = min(near, time.process_time() - began)

    found = lipyomo.solve(problem, "bnb", time_limit=limit, progress=watch)
    cpu = time.process_time() - began
    if found.upper - found.lower <= NEAR * found.upper:
        near = min(near, cpu)
    return Run(found.lower, found.upper, found.status.value, found.nodes or 0, near, cpu)


def measure_proof(problem: LipschitzProblem, limit: float) -> Run:
    """Write the proof of a solved problem: its CPU seconds, and its cases as nodes."""
    from lipyomo.proofs import write_proof

    found = lipyomo.solve(problem, "bnb", time_limit=limit)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof"
        write_proof(path, problem, found)
        cases = sum(1 for _ in path.open("rb")) - 1
    cpu = time.process_time() - began
    return Run(found.lower, found.upper, found.status.value, cases, cpu, cpu)


def chosen(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Families and names of cases whose family or name holds one of some words."""
    named = [(family, name) for family, cases in CASES.items() for name in cases]
    named += [("proofs", name) for name in PROVED]
    return [pair for pair in named if any(part in " ".join(pair) for part in parts)]


def alone(python: str, family: str, name: str, limit: float, shared: Path) -> Run:
    """One run in a process of its own."""
    words = [python, "-m", "experiments.families", "--one", family, name, "--time", str(limit)]
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [*words, "--shared", str(shared)],
        cwd=ROOT,
        env=os.environ | quiet,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Run(**found)


def one(family: str, name: str, limit: float, shared: Path) -> Run:
    """One run in this process."""
    builds = {key: build for cases in CASES.values() for key, build in cases.items()}
    problem = builds[name](shared)
    return (measure_proof if family == "proofs" else measure)(problem, limit)


def line(run: Run) -> str:
    """A run in words."""
    return (
        f"[{run.lower:.7g}, {run.upper:.7g}] {run.status:10s} {run.nodes:6d} nodes "
        f"1 % {run.near:6.2f} end {run.cpu:6.2f} s"
    )


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments families", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of families or names")
    parser.add_argument("--time", type=float, default=30.0, help="seconds a run")
    parser.add_argument("--vs", help="another Python to compare with")
    parser.add_argument("--runs", type=int, default=1, help="runs of each case")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        family, name = options.one
        print(json.dumps(asdict(one(family, name, options.time, options.shared.resolve()))))
        return
    shared = options.shared.resolve()
    pythons = [sys.executable] + ([options.vs] if options.vs else [])
    ratios: dict[str, list[tuple[float, float]]] = {}
    for family, name in chosen(options.cases):
        for _ in range(options.runs):
            try:
                runs = [alone(python, family, name, options.time, shared) for python in pythons]
            except subprocess.CalledProcessError:
                print(f"{family:20s} {name:14s} failed, or its network is not there", flush=True)
                break
            for run in runs:
                print(f"{family:20s} {name:14s} {line(run)}", flush=True)
            if len(runs) == 2 and math.isfinite(runs[0].near + runs[1].near):
                ratio = runs[0].near / runs[1].near, runs[0].cpu / runs[1].cpu
                ratios.setdefault(family, []).append(ratio)
    for family, pairs in ratios.items():
        near, end = (median(column) for column in zip(*pairs, strict=True))
        print(f"{family:20s} median ratio to 1 % {near:.2f}, to the end {end:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
