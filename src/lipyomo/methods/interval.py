"""The cheap rungs of the ladder as a method: linear bounds of gradients and tangents.

The gradient of y . f is bounded entry by entry and by its norm as a whole, and so are the outputs'
derivatives in all directions of the unit ball; the least of these is the upper end.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from lipyomo.bounds import (
    LayerBounds,
    adjoint_bounds,
    tangent_bounds,
    tighten_adjoints,
    tighten_tangents,
)
from lipyomo.bounds.gradient import entry_norms
from lipyomo.ladder import MAX_FUNCTIONALS, RUNGS, UpperRung
from lipyomo.methods.registry import method
from lipyomo.methods.support import climbed
from lipyomo.network import FloatArray
from lipyomo.norms import OutputNorm
from lipyomo.numerics.rounding import rounded_up
from lipyomo.phases import RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run

INTERVALS: tuple[UpperRung, ...] = ("entries",)


def programmed_bound(problem: LipschitzProblem, bounds: LayerBounds, time_limit: float) -> float:
    """Upper bound of the constant from linear programs over adjoints and tangents, by entry."""
    network, domain = problem.network, problem.domain
    deadline = time.monotonic() + time_limit
    vertices = problem.dual_vertices

    def by_adjoint(over: FloatArray | OutputNorm) -> float:
        found = adjoint_bounds(network, None, bounds, over)
        left = deadline - time.monotonic()
        if left > 0:
            found, _ = tighten_adjoints(network, domain, bounds, over, found, left)
        return float(entry_norms(found.end_lower, found.end_upper, problem.input_norm))

    few = vertices is not None and len(vertices) <= MAX_FUNCTIONALS
    if vertices is not None and few:
        upper = max(by_adjoint(y) for y in vertices)
        network = network.with_functional(vertices)
        if len(network.hidden) > len(problem.network.hidden):  # their product would round
            head = problem.network.head
            far = np.full(head.units, np.inf)
            bounds = replace(
                bounds,
                lower=[*bounds.lower, -far],
                upper=[*bounds.upper, far],
                phases=(*bounds.phases, np.full(head.units, RIGHT, dtype=np.int8)),
            )
    else:
        upper = by_adjoint(problem.output_norm)
    found = tangent_bounds(network, None, bounds, problem.input_norm)
    left = deadline - time.monotonic()
    if left > 0:
        found, _ = tighten_tangents(network, domain, bounds, problem.input_norm, found, left)
    size = np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))
    tangent = float(size.max() if few else problem.output_norm.value(size))
    return min(upper, rounded_up(tangent, 2 * size.size))


@method(
    "interval",
    "Interval",
    Guarantee.UPPER,
    "Weng et al. (ICML 2018); Zhang et al. (NeurIPS 2018); Shi et al. (NeurIPS 2022)",
    unbounded=True,
)
def run(run: Run) -> Result:
    """Climb the cheap rungs; with ``bounds='lp'`` linear programs come last."""
    problem, settings = run.problem, run.settings
    ladder = climbed(run, INTERVALS if settings.bounds == "interval" else RUNGS)
    if settings.bounds == "lp" and not run.expired:
        run.drop_upper(programmed_bound(problem.reduced.problem, ladder.bounds, run.left))
    return run.result()
