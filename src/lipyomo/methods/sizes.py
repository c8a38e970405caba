"""How much memory and time dense maps of all units take, and whether a run has them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lipyomo.base.clock import dense_entries, seconds_of
from lipyomo.base.system.memory import LARGE
from lipyomo.networks.phases import Phases, count_open
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.presolve import presolved_sizes
from lipyomo.problems.run import Run

SINGULAR_ORDER = 2000
"""Rows or columns up to which singular values are computed, which cannot be interrupted."""


def _sizes(problem: LipschitzProblem, phases: Phases) -> tuple[int, list[int] | None]:
    """Number of functionals, and layers of the network that is left if that is much smaller."""
    vertices = problem.dual_vertices
    count = problem.network.output_dim if vertices is None else len(vertices)
    return count, presolved_sizes(problem.network, count, phases)


def form_bytes(problem: LipschitzProblem, phases: Phases) -> float:
    """Memory of the maps of all units that are left under some phases of a reduced problem."""
    sizes = _sizes(problem, phases)[1] or problem.network.sizes
    return 8.0 * sum(sizes[1:]) * (problem.network.input_dim + count_open(phases))


def search_bytes(problem: LipschitzProblem, phases: Phases) -> float:
    """Memory that a search is predicted to take: dense weights, and maps of all units thrice."""
    sizes = _sizes(problem, phases)[1] or problem.network.sizes
    weights = sum(float(a) * b for a, b in pairwise(sizes))
    return 8.0 * weights + 3.0 * form_bytes(problem, phases)


def form_seconds(problem: LipschitzProblem, phases: Phases) -> float:
    """About how long the maps of all units that are left take, on one quiet core."""
    weights = [layer.weight for layer in problem.network.layers]
    columns = problem.network.input_dim + count_open(phases)
    functionals, sizes = _sizes(problem, phases)
    if sizes is None:
        return seconds_of(4.0 * sum(dense_entries(w) for w in weights) * columns)
    behind = [functionals + count_open(phases[i:]) for i in range(len(weights))]
    pulled_back = sum(float(w.size) * rows for w, rows in zip(weights, behind, strict=True))
    left = sum(float(a) * b for a, b in pairwise(sizes[1:]))  # the first layer's are its weights
    return seconds_of(4.0 * pulled_back + 10.0 * left * columns)


def norm_seconds(problem: LipschitzProblem) -> float:
    """About how long the norms of all layers take: singular values where these are asked for."""
    found = 0.0
    for layer in problem.tangent_network.layers:
        found += 8.0 * dense_entries(layer.weight)
        dense_or_small = (
            isinstance(layer.weight, np.ndarray) or min(layer.weight.shape) <= SINGULAR_ORDER
        )
        if problem.norm == "l2" and dense_or_small:
            found += 10.0 * float(layer.weight.size) * min(layer.weight.shape)
    return seconds_of(found)


def form_fits(run: Run, phases: Phases) -> bool:
    """Whether dense maps of all units fit into memory and time; the run is told if they do not."""
    small = run.problem.reduced.problem
    size, seconds = form_bytes(small, phases), form_seconds(small, phases)
    if size <= LARGE and run.clock.fits(seconds):
        return True
    run.warn(
        f"{sum(small.network.sizes[1:-1])} units of which {count_open(phases)} are open are too "
        "many for the memory, or for the time that is left: the bound is that of cheaper methods"
    )
    return False
