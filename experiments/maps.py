"""Maps: CPU seconds of cells in batches, beside single solves of some of them.

Usage::

    python -m experiments maps [--cases NAME ...] [--sample 20] [--workers 1] [--million] [--two]

Prints one line a case: CPU (with workers: wall-clock) seconds of the map, how many of its cells the
batches settled, and how long single solves of all cells would take, from a sample.  ``--million``
maps 10^6 cells and prints the memory that it took.  ``--two`` maps 10^5 cells and more with one
process and with two workers, and prints both wall-clock times, and what CPU seconds say of two
workers that have a core each: those of one process over half of the workers' and all of the
parent's.  Networks are random, He-normal.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence

import numpy as np

import lipyomo
from experiments.problems import gaussian
from lipyomo import LipschitzProblem, Network, map_cells
from lipyomo.analyses.maps import Cells, MapSettings, grid

DEEP = 2, 16, 16, 1


def network(sizes: Sequence[int], activation: str = "relu") -> Network:
    """A random network with biases of size .3."""
    return gaussian(sizes, 0, 0.3, activation)


def balls(count: int, radius: float) -> Cells:
    """Boxes of one half width around random points in four inputs."""
    centers = np.random.default_rng(1).uniform(-1.0, 1.0, (count, 4))
    return Cells(centers - radius, centers + radius)


def cases() -> list[tuple[str, Network, Cells, float]]:
    """Name, network, cells and gap of each case."""
    square, four = grid(-2.0, 2.0, (64, 64)), network((4, 32, 32, 1))
    return [
        ("2-16-16-1 ReLU, 4096 cells", network(DEEP), square, 0.0),
        ("2-64-64-1 ReLU, 4096 cells", network((2, 64, 64, 1)), square, 0.0),
        ("4-32-32-1 ReLU, 1000 balls of .02", four, balls(1000, 0.02), 0.0),
        ("4-32-32-1 ReLU, 1000 balls of .1", four, balls(1000, 0.1), 0.0),
        ("2-16-16-1 tanh, 4096 cells to 1 %", network(DEEP, "tanh"), square, 0.01),
        ("2-16-16-1 tanh, 4096 cells, exact", network(DEEP, "tanh"), square, 0.0),
    ]


def measure(name: str, net: Network, cells: Cells, gap: float, sample: int, workers: int) -> None:
    """Print the line of one case."""
    problem = LipschitzProblem(net, cells.hull)
    clock = time.process_time if workers == 1 else time.perf_counter
    searched = 0

    def count(progress: lipyomo.Progress) -> None:
        nonlocal searched
        searched += progress.message.startswith("search")

    began = clock()
    found = map_cells(problem, cells, MapSettings(gap=gap, workers=workers, progress=count))
    seconds = clock() - began
    chosen = np.random.default_rng(0).choice(len(cells), min(sample, len(cells)), replace=False)
    began, worst = time.process_time(), 0.0
    for k in chosen.tolist():
        alone = lipyomo.solve(problem.over(cells.box(k)), gap=gap, workers=1)
        worst = max(worst, abs(alone.upper - found.constant_upper[k]) / max(alone.upper, 1e-300))
    single = (time.process_time() - began) * len(cells) / max(len(chosen), 1)
    print(
        f"{name:36s} {seconds:7.2f} s, {len(cells) - searched:5d} in batches, open "
        f"{np.count_nonzero(~np.isin(found.status, ('exact', 'gap'))):4d}; one by one "
        f"{single:8.1f} s ({single / seconds:6.1f}), ends differ by {worst:.1e}",
        flush=True,
    )


def million(workers: int) -> None:
    """Print what 10^6 cells take, and how far they are now and then."""
    cells = grid(-2.0, 2.0, (1000, 1000))
    began = time.perf_counter()

    def show(progress: lipyomo.Progress) -> None:
        if progress.nodes % 131072 < 4096:
            print(f"  {progress}", flush=True)

    found = map_cells(
        LipschitzProblem(network(DEEP), cells.hull), cells, workers=workers, progress=show
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"10^6 cells: {time.perf_counter() - began:.1f} s, {memory:.0f} MB, done: {found.done}")


def cpu_of(who: int) -> float:
    """CPU seconds of this process, or of those that it has ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def two() -> None:
    """Print how much faster two workers are on maps that take 10 s or more."""
    for sizes, activation, side in (((2, 64, 64, 1), "relu", 320), (DEEP, "tanh", 250)):
        cells, taken = grid(-2.0, 2.0, (side, side)), []
        problem = LipschitzProblem(network(sizes, activation), cells.hull)
        for workers in (1, 2):
            mine, theirs = cpu_of(resource.RUSAGE_SELF), cpu_of(resource.RUSAGE_CHILDREN)
            began = time.perf_counter()
            map_cells(problem, cells, workers=workers)
            wall = time.perf_counter() - began
            mine = cpu_of(resource.RUSAGE_SELF) - mine
            taken.append((wall, mine, cpu_of(resource.RUSAGE_CHILDREN) - theirs))
        (alone, own, _), (wall, mine, theirs) = taken
        print(
            f"{problem.network.name} {activation}, {len(cells)} cells: one process "
            f"{alone:.1f} s (CPU {own:.1f}), two workers {wall:.1f} s (CPU {theirs:.1f} and "
            f"{mine:.1f} here): {alone / wall:.2f} times faster, by CPU "
            f"{own / (mine + 0.5 * theirs):.2f}",
            flush=True,
        )


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments maps", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--sample", type=int, default=20, help="cells that are solved alone")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--million", action="store_true", help="10^6 cells instead")
    parser.add_argument("--two", action="store_true", help="two workers beside one process instead")
    options = parser.parse_args(words)
    if options.two:
        two()
        return
    if options.million:
        million(options.workers)
        return
    for case in cases():
        if any(part in case[0] for part in options.cases):
            measure(*case, options.sample, options.workers)
