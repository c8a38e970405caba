"""What the methods of the papers share: reading options, results, rounding, sampled witnesses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lipyomo.affine.system import UnitSystem
from lipyomo.bounds import LayerBounds, preactivation_bounds
from lipyomo.errors import MethodError
from lipyomo.ladder import Ladder
from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.result import Result, Witness
from lipyomo.run import Run
from lipyomo.semidefinite.root import RootBounds, semidefinite_targets
from lipyomo.settings import Settings

MAX_VERTICES = 256
"""Most vertices of a dual ball for which a method solves one scalar problem each."""


def whole_number(settings: Settings, name: str, default: int, least: int = 1) -> int:
    """An option that counts something.

    Raises
    ------
    MethodError
        If it is not a whole number of at least `least`.
    """
    value = settings.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise MethodError(f"option {name} must be a whole number of at least {least}, not {value}")
    return int(value)


def choice(settings: Settings, name: str, allowed: Sequence[str]) -> str:
    """An option with a few values, the first of which is the default.

    Raises
    ------
    MethodError
        If the value is not one of them.
    """
    value = settings.options.get(name, allowed[0])
    if value not in allowed:
        raise MethodError(f"option {name} must be one of {', '.join(allowed)}, not {value}")
    return str(value)


def best_witness(
    problem: LipschitzProblem, points: FloatArray, values: FloatArray, tries: int = 16
) -> Witness | None:
    """A checked witness at the best of some points, shape (n, d), with their `values` (n,).

    Points on a kink or a face of the domain prove nothing; the next best is tried then.
    """
    order = np.argsort(-values, kind="stable")[:tries]
    found = (make_witness(problem, points[k]) for k in order)
    known = [witness for witness in found if witness is not None]
    return max(known, key=lambda witness: witness.value, default=None)


def upper_result(run: Run, upper: float, done: bool | None = None, **facts: Any) -> Result:
    """The result of a method whose last word is an upper bound.

    Parameters
    ----------
    run : Run
    upper : float
    done : bool, optional
        As for `Run.result`.
    **facts
        Fields of `Result`.
    """
    run.drop_upper(upper)
    return run.result(done, **facts)


def domain_bounds(run: Run) -> LayerBounds:
    """Pre-activation bounds of the reduced problem, by the rung of the settings (linear)."""
    small, rung = run.problem.reduced.problem, run.settings.bounds
    return preactivation_bounds(
        small.network,
        small.domain,
        rung="linear" if rung == "auto" else rung,
        time_limit=run.left if math.isfinite(run.left) else None,
    )


def fall_back(run: Run) -> None:
    """Give a run that had to end early the interval bound, if that is better than what it has."""
    small = run.problem.reduced.problem
    bounds = preactivation_bounds(small.network, small.domain, rung="interval")
    ladder = Ladder(small, bounds)
    ladder.climb(("entries",))
    run.drop_upper(ladder.value)


def root_bounds(run: Run, bounds: LayerBounds, cheap: bool = False) -> RootBounds:
    """Semidefinite bounds of the reduced problem, not begun yet.

    Parameters
    ----------
    run : Run
    bounds : LayerBounds
        Of its pre-activations.
    cheap : bool, optional
        Whether to begin with the cheap bounds of the ladder.

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    small = run.problem.reduced.problem
    targets = semidefinite_targets(small)
    system = UnitSystem(small.network, targets.functionals, small.domain)
    known = None
    if cheap:
        ladder = Ladder(small, bounds, targets, stop=lambda: run.expired)
        ladder.climb(("entries", "tangents"), lambda: run.left)
        known = ladder.upper
        run.drop_upper(ladder.value)
    phases = np.concatenate([np.zeros(0, dtype=np.int8), *bounds.phases])
    return RootBounds(system, targets, phases, known, small.output_norm)


def few_vertices(problem: LipschitzProblem, method: str) -> FloatArray:
    """Vertices of the dual ball (k, m), one scalar problem each.

    Raises
    ------
    MethodError
        If the dual ball has too many.
    """
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) > MAX_VERTICES:
        raise MethodError(
            f"method {method} treats the vertices of the dual ball one by one, and the norm "
            f"{problem.output_norm.name} of {problem.network.output_dim} outputs has more than "
            f"{MAX_VERTICES}.  Remedy: give a functional or a margin"
        )
    return vertices
