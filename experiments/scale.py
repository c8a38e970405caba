"""Networks of the size that people have: upper ends and their CPU seconds, method by method.

Usage::

    python -m experiments scale [--networks m100x2 ...] [--methods crown sdp auto] [--time 60]
                                [--shared FOLDER] [--markdown]

Reads FOLDER/scale (default: ../shared beside the repository): ONNX networks with a centre each, and
``values.json`` with radii, the best lower ends known and the values of auto_LiRPA's bound of the
Clarke Jacobian (CROWN and alpha-CROWN); ``experiments networks`` trains such a folder.  Where
auto_LiRPA is installed, its bounds are computed in the same run.  Prints one line a network, radius
and method: the interval, CPU and wall seconds, the seconds to the first interval that is not looser
than theirs, and the peak of memory so far; or, with ``--markdown``, the table of the documentation,
in which the default method (``auto``) has two columns: its interval after five seconds of wall
time, and at its end.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lirpa import has_lirpa, lirpa_bound
from experiments.reference import SHARED
from lipyomo import Box, LipschitzProblem, Network, Result, load, solve
from lipyomo.base.arrays import FloatArray

MEGABYTES = 1024.0
"""Units of ``ru_maxrss`` in a megabyte (kilobytes, as Linux counts them)."""

ANYTIME = ("auto", "bnb")
"""Methods whose interval goes on shrinking."""

EARLY = 5.0
"""Seconds after which their interval is looked at for the first time."""


@dataclass(frozen=True)
class Case:
    """A network and a ball.

    Attributes
    ----------
    label : str
    path : Path
        Of the ONNX file.
    problem : LipschitzProblem
    center : ndarray
    row : dict
        Its entry in ``values.json``.
    """

    label: str
    path: Path
    problem: LipschitzProblem
    center: FloatArray
    row: dict[str, Any]

    def theirs(self) -> dict[str, tuple[float, float]]:
        """Upper ends of auto_LiRPA with their seconds: measured now, or as kept in the file."""
        names = {"auto_LiRPA crown": False, "auto_LiRPA alpha": True}
        if not has_lirpa():
            kept = {name: self.row[name] for name in names if name in self.row}
            return {name: (found["upper"], found["seconds"]) for name, found in kept.items()}
        vertices, radius = self.problem.dual_vertices, float(self.row["radius"])
        assert vertices is not None
        return {
            name: lirpa_bound(self.path, self.center, radius, vertices, optimise)
            for name, optimise in names.items()
        }


def cases(folder: Path, wanted: Sequence[str]) -> Iterator[Case]:
    """Every network and radius with values to compare with."""
    networks: dict[str, tuple[Network, FloatArray]] = {}
    for row in json.loads((folder / "values.json").read_text()):
        name, radius = row["network"], float(row["radius"])
        if wanted and name not in wanted:
            continue
        path = folder / f"{name}.onnx"
        if name not in networks:
            networks[name] = load(path), np.load(folder / f"{name}.npy").reshape(-1)
        network, center = networks[name]
        box = Box(center - radius, center + radius)
        if "functional" in row["norms"]:
            c = np.zeros(network.output_dim)
            c[:2] = 1.0, -1.0
            problem = LipschitzProblem(network, box, functional=c)
        else:
            problem = LipschitzProblem(network, box, "linf", "linf")
        yield Case(f"{name} {radius:.4f} {problem.describe_norms()}", path, problem, center, row)


def titles(method: str, limit: float) -> list[str]:
    """Headings of a method's columns."""
    if method not in ANYTIME:
        return [f"`{method}`"]
    return [f"`{method}`, {EARLY:g} s", f"`{method}`, {limit:g} s"]


def entries(method: str, result: Result, cpu: float) -> list[str]:
    """A method's cells of a row."""
    if method not in ANYTIME:
        return [f"{result.upper:.5g} ({cpu:.2g} s)"]
    early = [row for row in result.history if row[0] <= EARLY]
    first = f"[{early[-1][1]:.5g}, {early[-1][2]:.5g}]" if early else ""
    if result.status == "exact":
        return [first, f"{result.upper:.6g} exact ({result.seconds:.2g} s)"]
    return [first, f"[{result.lower:.5g}, {result.upper:.5g}]"]


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m experiments scale")
    parser.add_argument("--networks", nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=["crown", "sdp", "auto"])
    parser.add_argument("--time", type=float, default=60.0, help="seconds a run")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args(words)
    if asked.markdown:
        names = [title for m in asked.methods for title in titles(m, asked.time)]
        print("| network | radius | theirs | " + " | ".join(names) + " |")
        print("|---|---|---|" + "---|" * len(names))
    for case in cases(asked.shared / "scale", asked.networks):
        theirs, seconds = min(case.theirs().values(), default=(math.inf, math.nan))
        cells = [f"{theirs:.5g} ({seconds:.2g} s)" if math.isfinite(theirs) else ""]
        if not asked.markdown:
            known = case.row["best lower known"] or 0.0
            print(f"{case.label:44s} theirs {theirs:10.3f}   attained {known:9.3f}")
        for method in asked.methods:
            wall, cpu = time.perf_counter(), time.process_time()
            result = solve(case.problem, method, time_limit=asked.time, attain=False)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            cells += entries(method, result, cpu)
            if asked.markdown:
                continue
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
        if asked.markdown:
            name, radius, norms = case.label.split(maxsplit=2)
            where = f"{float(radius):.4g}" + (", functional" if "functional" in norms else "")
            print(f"| {name} | {where} | " + " | ".join(cells) + " |", flush=True)
