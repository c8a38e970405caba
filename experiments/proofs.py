"""Proofs: what it costs to write and to check them, beside the search.

Usage::

    python -m experiments proofs [--cases NAME ...] [--boxes] [--time 60] [--shared FOLDER]

Prints one line a case: CPU seconds of branch and bound, of writing the proof and of checking it,
the proof's cases and kB, and whether the upper end is proved.  The cases are those of ``exact``,
and random networks with few inputs; ``--boxes`` proves networks in boxes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lipyomo
from experiments.exact import cases
from experiments.problems import Build, gaussian
from experiments.reference import ROOT, SHARED
from lipyomo import Box, LipschitzProblem, LipyomoError
from lipyomo.proofs import write_proof
from lipyomo_check import check_proof


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Append the CPU seconds of what happens inside."""
    began = time.process_time()
    yield
    seconds.append(time.process_time() - began)


def quickstart(_: Path) -> LipschitzProblem:
    """The example of the documentation's first page."""
    network = lipyomo.load(ROOT / "models" / "iris.onnx")
    return LipschitzProblem(network, Box(0.0, 8.0, 4), margin=1)


def few(sizes: tuple[int, ...], radius: float) -> Build:
    """A random network on a cube about the origin."""

    def build(_: Path) -> LipschitzProblem:
        return LipschitzProblem(gaussian(sizes, 1, 0.3), Box(-radius, radius, sizes[0]))

    return build


FEW = (
    ("few 2-100-100-2", few((2, 100, 100, 2), 1.0)),
    ("few 3-32-32-2", few((3, 32, 32, 2), 1.0)),
    ("few 4-32-32-1", few((4, 32, 32, 1), 0.5)),
    ("few 6-16-16-1", few((6, 16, 16, 1), 1.0)),
)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments proofs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--boxes", action="store_true", help="prove in boxes")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of a search, of a proof")
    parser.add_argument("--shared", type=Path, default=SHARED)
    options = parser.parse_args(words)
    boxes = options.boxes or None  # by default as it is best
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof"
        for case, build in (("quickstart", quickstart), *FEW, *cases(options.shared)):
            if not any(part in case for part in options.cases):
                continue
            seconds: list[float] = []
            problem = build(options.shared)
            try:
                with timed(seconds):
                    result = lipyomo.solve(problem, "bnb", time_limit=options.time)
                with timed(seconds):
                    write_proof(path, problem, result, time_limit=options.time, boxes=boxes)
                with timed(seconds):
                    verdict = check_proof(path)
            except LipyomoError as error:
                print(f"{case:34s} {str(error).splitlines()[0]}", flush=True)
                continue
            solved, written, checked = seconds
            print(
                f"{case:34s} {result.status:10s} solve {solved:7.2f} write {written:7.2f} "
                f"check {checked:7.2f} s CPU {verdict.nodes:6d} cases "
                f"{path.stat().st_size / 1000:8.1f} kB "
                f"{'proved' if verdict.upper_proved else 'not proved'}",
                flush=True,
            )
