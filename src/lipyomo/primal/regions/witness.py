"""Witnesses: points of the original problem at which a lower bound is attained, checked.

A point is valid only if it is interior to the domain and every unit is away from its kink by more
than the rounding error of the forward pass; if a unit is too close, exact arithmetic decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.exact import root_below
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Network
from lipyomo.primal.regions.margin import interior_point, margin_from_below, margin_of, region_rows
from lipyomo.primal.regions.params import PARAMS, Params
from lipyomo.primal.regions.replay import attained_square, exact_jacobian, strict_pattern
from lipyomo.primal.regions.smooth_witness import smooth_witness
from lipyomo.problems.norms import DUAL, vector_norm
from lipyomo.problems.operator_norm import OperatorNorm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness


@with_one_blas_thread
def make_witness(
    problem: LipschitzProblem, x: FloatArray, params: Params = PARAMS
) -> Witness | None:
    """Return a witness at the point `x` of the original problem, or None if `x` proves nothing.

    Parameters
    ----------
    problem : LipschitzProblem
    x : ndarray, shape (d,), or (2, d)
        Inputs that cannot move are set to their values.  Two rows stand for their sum, a point
        between float64 numbers.
    params : Params, optional

    Returns
    -------
    Witness or None
        None if `x` is not interior to the domain, or on a kink.  With smooth units, points on the
        boundary are valid as well (`lipyomo.primal.regions.smooth_witness`).
    """
    domain = problem.domain
    parts = np.atleast_2d(np.asarray(x, dtype=np.float64)).copy()
    parts[:, domain.frozen] = 0.0
    parts[0, domain.frozen] = domain.upper[domain.frozen]
    point, rest = parts[0], parts[1] if parts[1:].any() else None
    if problem.network.smooth:
        return smooth_witness(problem, parts.sum(axis=0))
    if not np.isfinite(parts).all() or not domain.holds_inside(parts):
        return None
    pattern = strict_pattern(problem.network, parts, ~domain.frozen)
    if pattern is None:
        return None
    found, value = attained(problem, pattern, params)
    if is_large(problem.network, params):
        margin = margin_from_below(problem.network, domain, pattern, point)
    else:
        rows = region_rows(problem.network, pattern, ~domain.frozen, point)
        margin = margin_of(rows, domain, point)
    margin = max(margin, 0.0)
    return Witness(point, found.direction, found.functional, pattern, margin, value, rest=rest)


def in_norms_of(problem: LipschitzProblem, witness: Witness) -> Witness:
    """Convert a witness of another problem with the same network and domain to `problem`."""
    found, value = attained(problem, witness.pattern)
    return replace(witness, direction=found.direction, functional=found.functional, value=value)


def is_large(network: Network, params: Params = PARAMS) -> bool:
    """Return whether the rows of all units are too many to be written out."""
    return network.kinked_units * network.input_dim > params.entries


def witness_near(problem: LipschitzProblem, x: FloatArray) -> Witness | None:
    """Return a witness at a point of the reduced problem, or close to it.

    The original network may have kinks where the reduced one has none.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem.
    x : ndarray, shape (k,) or (2, k)
        In the inputs that can move.
    """
    reduced = problem.reduced
    found = make_witness(problem, reduced.lift_point(x))
    if found is not None or x.ndim > 1:
        return found
    wanted = reduced.problem.value_at(x).value * (1.0 - PARAMS.rounding)
    for k, y in enumerate(reduced.problem.domain.sample(np.random.default_rng(0), PARAMS.tries)):
        near = make_witness(problem, reduced.lift_point(x + 8.0**-k * (y - x)))
        if near is not None and (found is None or near.value > found.value):
            found = near
        if found is not None and found.value >= wanted:
            break
    return found


def attained(
    problem: LipschitzProblem, pattern: Pattern, params: Params = PARAMS
) -> tuple[OperatorNorm, float]:
    """Compute the operator norm on the piece of `pattern`, and a proved lower bound of it.

    The lower bound is exact and rounded down, except for large networks, and for those with many
    weights whose gradients do not cancel; there it is the rounded value minus its error.  If
    functionals may lie outside the dual ball, it is reduced accordingly.
    """
    network = problem.network
    jacobian = network.jacobian(pattern)
    found = problem.norm_of(jacobian)
    least = _norm_from_below(problem, pattern, jacobian, found.functional)
    cancels = least < found.value * (1.0 - PARAMS.rounding)
    many = sum(layer.weight.size for layer in network.layers) > params.weights
    if is_large(network, params) or (many and not cancels):
        return found, _reached(problem, max(least, 0.0))
    if cancels:
        found = problem.norm_of(exact_jacobian(network, pattern))
    value = root_below(attained_square(problem, pattern, found.functional))
    return found, _reached(problem, value)


def _reached(problem: LipschitzProblem, value: float) -> float:
    """Reduce a `value` of a functional that may lie outside the dual ball to one inside it."""
    excess = problem.output_norm.excess
    return value * (1.0 - excess) * (1.0 - 2.0**-51) if excess else value


def _norm_from_below(
    problem: LipschitzProblem, pattern: Pattern, jacobian: FloatArray, functional: FloatArray
) -> float:
    """Bound the norm of ``functional . J T`` from below, given the computed `jacobian` J."""
    network, moving = problem.network, ~problem.domain.frozen
    sizes = np.asarray(np.abs(functional) @ network.head.sizes)
    terms = network.head.inputs + 2 * functional.size
    for layer, on in zip(reversed(network.hidden), reversed(pattern), strict=True):
        sizes = np.asarray((sizes * np.abs(layer.slopes(on))) @ layer.sizes)
        terms += layer.inputs + 2
    rows = np.stack([functional @ jacobian, sizes])
    if problem.directions is None:
        rows = rows[:, moving]
    else:
        terms += network.input_dim
        rows = np.stack([rows[0] @ problem.directions, rows[1] @ abs(problem.directions)])
    value, reach = vector_norm(rows, DUAL[problem.norm])
    return float(value - gamma(terms + sizes.size) * reach)


@with_one_blas_thread
def witness_of_pattern(problem: LipschitzProblem, pattern: Pattern) -> Witness | None:
    """Return a witness in, or close to, the region of a pattern of the reduced network.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem.
    pattern : Pattern
        A pattern of ``problem.reduced.problem.network``.

    Returns
    -------
    Witness or None
        None if the region has no interior in the domain, or cannot be written out.
    """
    reduced = problem.reduced
    if is_large(reduced.problem.network):
        return None
    found = interior_point(reduced.problem.network, reduced.problem.domain, pattern)
    return witness_near(problem, found.x) if found.margin > 0 else None


def unbeaten(
    points: FloatArray,
    values: FloatArray,
    certify: Callable[[FloatArray], Witness | None],
    clock: Clock | None = None,
) -> Witness | None:
    """Return the best witness at points (n, d), sorted by decreasing `values` (n,).

    This stops at the first witness that no later point can beat beyond rounding, or once the time
    of `clock` is up.
    """
    best: Witness | None = None
    for x, value in zip(points, values, strict=True):
        if best is not None:
            late = clock is not None and clock.expired
            if late or best.value >= value * (1.0 - PARAMS.rounding):
                break
        found = certify(x)
        if found is not None and (best is None or found.value > best.value):
            best = found
    return best
