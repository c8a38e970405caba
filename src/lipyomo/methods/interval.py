"""The bound ladder as a method: gradients and tangents between linear bounds, and a search.

The gradient of y . f is bounded entry by entry (FastLip, with linear back-substitution through the
switches), and so are the outputs' derivatives in all directions of the unit ball; the smaller of
the two norms is the upper end.  The lower end comes from the incumbent search.
"""

from __future__ import annotations

import math
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
from lipyomo.bounds.derivative import Rung
from lipyomo.errors import MethodError
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import domain_bounds
from lipyomo.network import FloatArray, Network
from lipyomo.norms import DUAL, OutputNorm, vector_norm
from lipyomo.numerics.rounding import rounded_up
from lipyomo.phases import RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run
from lipyomo.sampling.local_search import search_incumbent

MAX_VERTICES = 512
"""Most vertices of the dual ball that are bounded one by one."""


def gradient_bound(
    problem: LipschitzProblem,
    bounds: LayerBounds,
    rung: Rung = "linear",
    time_limit: float = math.inf,
) -> float:
    """Upper bound of the constant from bounds of adjoints and tangents.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs (a reduced one).
    bounds : LayerBounds
        Of the pre-activations over its domain.
    rung : {'linear', 'interval', 'lp'}, optional
    time_limit : float, optional
        Seconds for the linear programs of the rung ``lp``.

    Returns
    -------
    float
        Safe against rounding.
    """
    deadline = time.monotonic() + time_limit
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) > MAX_VERTICES:
        adjoint = _by_adjoint(problem, bounds, problem.output_norm, rung, deadline)
        reach = _tangents(problem, problem.network, bounds, rung, deadline)
        tangent = rounded_up(float(problem.output_norm.value(reach)), 2 * reach.size)
        return min(adjoint, tangent)
    adjoint = max(_by_adjoint(problem, bounds, y, rung, deadline) for y in vertices)
    scalar = problem.network.with_functional(vertices)
    if len(scalar.hidden) > len(problem.network.hidden):  # their product would round
        head = problem.network.head
        far = np.full(head.units, np.inf)
        bounds = replace(
            bounds,
            lower=[*bounds.lower, -far],
            upper=[*bounds.upper, far],
            phases=(*bounds.phases, np.full(head.units, RIGHT, dtype=np.int8)),
        )
    return min(adjoint, float(_tangents(problem, scalar, bounds, rung, deadline).max()))


def _by_adjoint(
    problem: LipschitzProblem,
    bounds: LayerBounds,
    over: FloatArray | OutputNorm,
    rung: Rung,
    deadline: float,
) -> float:
    """Dual norm of the largest absolute gradient, for functionals in a set."""
    network = problem.network
    found = adjoint_bounds(network, None, bounds, over, rung)
    left = deadline - time.monotonic()
    if rung == "lp" and left > 0:
        found, _ = tighten_adjoints(network, problem.domain, bounds, over, found, left)
    size = np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))
    return rounded_up(float(vector_norm(size, DUAL[problem.input_norm])), 2 * size.size)


def _tangents(
    problem: LipschitzProblem,
    network: Network,
    bounds: LayerBounds,
    rung: Rung,
    deadline: float,
) -> FloatArray:
    """Largest absolute derivatives of the outputs of `network`, shape (k,).

    l1 and l2 norms grow with each entry, and a vertex of a dual ball is an output of its own.
    """
    found = tangent_bounds(network, None, bounds, problem.input_norm, rung)
    left = deadline - time.monotonic()
    if rung == "lp" and left > 0:
        domain = problem.domain
        found, _ = tighten_tangents(network, domain, bounds, problem.input_norm, found, left)
    return np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))


def run(run: Run) -> Result:
    """Bound the constant from both sides.

    Options
    -------
    evaluations : int
        Points of the incumbent search; 0 (the default) chooses by the network's size.
    """
    asked = run.settings.options.get("evaluations", 0)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        raise MethodError(f"option evaluations must be a whole number from 0 on, not {asked}")
    problem, settings = run.problem, run.settings
    bounds = domain_bounds(run)
    rung: Rung = "linear" if settings.bounds == "auto" else settings.bounds
    run.drop_upper(gradient_bound(problem.reduced.problem, bounds, rung, run.left))
    rng = np.random.default_rng(settings.seed)
    run.raise_lower(search_incumbent(problem, rng, asked or None, run.clock))
    if run.witness is None:
        run.warn("no point was found that is off every kink and inside the domain")
    return run.result(unstable=bounds.unstable, bounds=bounds.rung)


register(
    Method(
        name="interval",
        title="Interval",
        guarantee=Guarantee.UPPER,
        reference="Weng et al. (ICML 2018); Zhang et al. (NeurIPS 2018)",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
        options={"evaluations": 0},
    )
)
