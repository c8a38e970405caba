"""Cells: parts of the domain (and subsets of the dual ball's vertices) with a model each.

On a part of the domain fewer units are unstable and all bounds are tighter.  With few inputs,
bisecting the box a few times removes more switches from the model than a solver would fix in the
same time; with many inputs it removes none, and the domain is not cut.  A linear region that
intersects the interior of the domain intersects the interior of a cell, so no value is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.base.errors import DomainError
from lipyomo.mip.params import ENOUGH_UNITS
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.domains.polytope import interior_of
from lipyomo.problems.norms import ONE_BY_ONE, LinearOutput, OutputNorm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.settings import Relaxation
from lipyomo.relaxations.linear import LayerBounds, preactivation_bounds
from lipyomo.relaxations.linear.balls import DualBall, SingleFunctionals
from lipyomo.relaxations.linear.derivative import derivative_relaxation
from lipyomo.relaxations.linear.gradient import gradient_ends


@dataclass(frozen=True)
class Cell:
    """A part of the problem with its bounds.

    Attributes
    ----------
    domain : Domain
    bounds : LayerBounds
        Pre-activation bounds over `domain`.
    norm : OutputNorm
        The output norm, restricted to the remaining vertices.
    vertices : ndarray, shape (k, m), or None
        Remaining vertices of the dual ball, if they are few.
    upper : float
        Upper bound of the operator norm in this cell.
    """

    domain: Domain
    bounds: LayerBounds
    norm: OutputNorm
    vertices: FloatArray | None
    upper: float


def excluded(network: Network, bounds: LayerBounds, pattern: Pattern) -> bool:
    """Return whether a pattern contradicts the phase of a stable unit."""
    return any(
        bool((layer.kinked & (phases != OPEN) & (on != (phases == RIGHT))).any())
        for layer, phases, on in zip(network.hidden, bounds.phases, pattern, strict=True)
    )


def unstable_units(phases: tuple[np.ndarray, ...]) -> list[tuple[int, int]]:
    """Return layer and index of each unstable unit."""
    return [
        (i, k) for i, layer in enumerate(phases) for k in np.flatnonzero(layer == OPEN).tolist()
    ]


def for_models(problem: LipschitzProblem) -> LipschitzProblem:
    """Return the reduced problem on a polyhedral domain.

    Raises
    ------
    DomainError
        If the domain is not a polyhedron.
    """
    small = problem.reduced.problem
    domain = small.domain.polyhedron()
    if domain is None:
        raise DomainError(f"the domain ({small.domain.describe()}) is not a polyhedron")
    if domain is small.domain:
        return small
    norms = small.norm, small.output_norm
    return LipschitzProblem(small.network, domain, *norms, directions=small.directions)


def whole_cell(
    problem: LipschitzProblem,
    relaxation: Relaxation,
    time_limit: float,
    stop: Callable[[], bool] | None = None,
) -> Cell:
    """Return the whole (reduced) problem as a cell; once `stop` is True, with interval bounds."""
    bounds = preactivation_bounds(
        problem.network, problem.domain, None, relaxation, time_limit, stop
    )
    vertices = problem.dual_vertices
    if vertices is not None and len(vertices) > ONE_BY_ONE:
        vertices = None
    cell = Cell(problem.domain, bounds, problem.output_norm, vertices, np.inf)
    return measured(problem, cell, 0.0, stop)


def measured(
    problem: LipschitzProblem,
    cell: Cell,
    lower: float,
    stop: Callable[[], bool] | None = None,
) -> Cell:
    """Return the cell with its interval bound, without vertices that cannot exceed `lower`."""
    norms = _norms(problem, cell, stop)
    measured = replace(cell, upper=min(cell.upper, float(norms.max(initial=0.0))))
    keep = norms > lower
    if cell.vertices is None or keep.all() or not keep.any():
        return measured
    left = cell.vertices[keep]
    return replace(measured, vertices=left, norm=LinearOutput(vertices=left))


def _norms(problem: LipschitzProblem, cell: Cell, stop: Callable[[], bool] | None) -> FloatArray:
    """Return interval bounds for a cell's vertices, shape (k,), or the whole norm, shape (1,)."""
    functionals = DualBall(cell.norm) if cell.vertices is None else SingleFunctionals(cell.vertices)
    phases, relaxation = cell.bounds.phases, derivative_relaxation(cell.bounds.relaxation)
    return gradient_ends(
        problem.tangent_network, phases, functionals, problem.norm, relaxation, stop
    ).norm


def part_of(domain: Domain, lower: FloatArray, upper: FloatArray) -> Domain | None:
    """Return `domain` clipped to a box, or that box; None if the interior is proved to be empty."""
    try:
        return domain.clipped(lower, upper)
    except DomainError:
        flat = interior_of(domain.rows, lower, upper).weights is not None
        return None if flat else Box(lower, upper)


def units_that_pay(inputs: int) -> float:
    """Return how many units a bisection must stabilise per half, on average, to pay off.

    Cells are only small after bisections along every input, so that a single one must stabilise
    more units the more inputs there are; measured with HiGHS on networks with 2 to 16 inputs.
    """
    return max(1.0, inputs - 1.0)


def cell_halves(
    problem: LipschitzProblem,
    cell: Cell,
    lower: float,
    relaxation: Relaxation,
    stop: Callable[[], bool],
) -> list[Cell]:
    """Bisect a cell along the input that stabilises most units.

    Empty if two models are expected to take longer than one, or `stop` returns True.
    """
    domain = cell.domain
    if not domain.is_polyhedral or cell.bounds.unstable <= ENOUGH_UNITS:
        return []
    least = 2.0 * (cell.bounds.unstable - units_that_pay(domain.dimension))
    if least < 0.0:
        return []
    coarser: Relaxation = "interval" if relaxation == "interval" else "linear"
    first = problem.network.layers[0]
    influence = np.asarray(abs(first.weight).sum(axis=0)).reshape(-1)
    order = np.argsort(-influence * (domain.upper - domain.lower))
    best: list[Cell] = []
    for j in order.tolist():
        middle = 0.5 * (domain.lower[j] + domain.upper[j])
        high, low = domain.upper.copy(), domain.lower.copy()
        high[j] = low[j] = middle
        parts: list[Cell] = []
        for area in (part_of(domain, domain.lower, high), part_of(domain, low, domain.upper)):
            if stop():
                return []
            if area is not None:
                bounds = preactivation_bounds(problem.network, area, None, coarser)
                parts.append(replace(cell, domain=area, bounds=bounds))
        count = sum(part.bounds.unstable for part in parts)
        if count <= least:
            best, least = parts, count
    return [measured(problem, part, lower, stop) for part in best]


def by_functional(
    problem: LipschitzProblem, cell: Cell, stop: Callable[[], bool] | None = None
) -> list[Cell]:
    """Return one cell for each vertex of the dual ball; the cell itself if there are many or one.

    A single functional has tighter adjoint bounds than a hull, and its model has no binaries for
    the choice of a vertex.
    """
    points = cell.vertices
    if points is None or not 1 < len(points) <= ONE_BY_ONE:
        return [cell]
    uppers = np.minimum(_norms(problem, cell, stop), cell.upper).tolist()
    return [
        replace(cell, vertices=y[None, :], norm=LinearOutput(vertices=y[None, :]), upper=upper)
        for y, upper in zip(points, uppers, strict=True)
    ]


def partition(
    problem: LipschitzProblem,
    root: Cell,
    lower: float,
    relaxation: Relaxation,
    stop: Callable[[], bool],
) -> list[Cell]:
    """Partition a cell by functionals, and bisect by decreasing bounds while that pays off.

    Parameters
    ----------
    problem : LipschitzProblem
        Reduced.
    root : Cell
    lower : float
        An attained value: cells that cannot exceed it are pruned.
    relaxation : {'auto', 'interval', 'linear', 'lp'}
    stop : callable
        Polled; True ends the partition early.

    Returns
    -------
    list of Cell
        By decreasing bounds; together they contain every value above `lower`.
    """
    queue: list[tuple[float, int, Cell]] = []
    done: list[Cell] = []
    serial = 0
    for cell in by_functional(problem, root, stop):
        serial += 1
        heapq.heappush(queue, (-cell.upper, serial, cell))
    while queue:
        _, _, cell = heapq.heappop(queue)
        if cell.upper <= lower:
            continue
        roomy = len(queue) + len(done) < ONE_BY_ONE
        parts = cell_halves(problem, cell, lower, relaxation, stop) if roomy else []
        if not parts:
            done.append(cell)
        for part in parts:
            serial += 1
            heapq.heappush(queue, (-part.upper, serial, part))
    return sorted(done, key=lambda cell: -cell.upper)
