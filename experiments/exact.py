"""Exact methods side by side: branch and bound, and the MIP with each solver at hand.

Usage::

    python -m experiments exact [--cases NAME ...] [--methods bnb mip:highs ...] [--time 60]
                               [--shared FOLDER] [--json FILE]

Prints one line a case and method: the interval, CPU and wall seconds, nodes, and the gap of the
root bound.  Networks of other groups are read from FOLDER (default: ../shared beside the
repository) and skipped if it is absent; the project's own come from ``models/``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import lipyomo
from experiments.problems import Build, digit, normed, own, random, scalar
from experiments.reference import SHARED
from lipyomo import LipschitzProblem, LipyomoError


@dataclass
class Row:
    """One case solved by one method."""

    case: str
    method: str
    lower: float
    upper: float
    status: str
    cpu: float
    wall: float
    nodes: int | None
    root_gap: float | None


def cases(shared: Path) -> Iterator[tuple[str, Build]]:
    """Names and problems; those of other groups if their networks are there."""
    for seed in range(10):
        yield f"random 16-16-16-2 seed {seed}", random(seed)
    for k in range(20):
        yield f"mnist17_s0 image {k}", digit(k, "linf", 0.1)
    yield "synthetic10", own("synthetic10.onnx", 10)
    if not (shared / "reference").is_dir():
        return
    for name in ("lipmip_A_16-16-16-2_cube_s0", "lipmip_C_2-20-40-20-2_cube_s0"):
        yield name, scalar(name)
    yield "wine, R^11, l2", normed("exlipbab_wine_11-12-12-1", "l2", everywhere=True)
    yield "iris, R^4, l2", normed("exlipbab_iris_4-6-6-3", "l2", everywhere=True)
    for norm in ("l1", "l2", "linf"):
        yield f"lipbab 10-20-15-10-3, {norm}", normed("lipbab_sd_10-20-15-10-3", norm)
    for sizes in ("20_24", "80_80"):
        for seed in range(5):
            yield f"chen {sizes} seed {seed}", scalar(f"chen_{sizes}_seed{seed}")
    yield "lipmip_D", scalar("lipmip_D_784-20-20-20-2_ball0.1_s0")


def measure(case: str, problem: LipschitzProblem, method: str, limit: float) -> Row:
    name, _, solver = method.partition(":")
    cpu, wall = time.process_time(), time.perf_counter()
    result = lipyomo.solve(
        problem, name, time_limit=limit, solver=solver or "auto", check_claims=False
    )
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    root = result.details.get("root_bound")
    gap = None if root is None or result.lower <= 0 else root / result.lower - 1.0
    return Row(
        case, method, result.lower, result.upper, str(result.status), cpu, wall, result.nodes, gap
    )


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments exact", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--methods", nargs="*", default=["bnb"], help="METHOD or mip:SOLVER")
    parser.add_argument("--time", type=float, default=60.0, help="seconds a run")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(words)
    rows = []
    for case, build in cases(options.shared):
        if not any(part in case for part in options.cases):
            continue
        for method in options.methods:
            try:
                row = measure(case, build(options.shared), method, options.time)
            except LipyomoError as error:
                print(f"{case:34s} {method:10s} {str(error).splitlines()[0]}", flush=True)
                continue
            rows.append(row)
            root = "" if row.root_gap is None else f"root gap {100 * row.root_gap:6.1f} %"
            print(
                f"{case:34s} {method:10s} [{row.lower:.7g}, {row.upper:.7g}] {row.status:10s} "
                f"{row.cpu:7.2f} s CPU {row.wall:7.2f} s {row.nodes or 0:7d} nodes {root}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
