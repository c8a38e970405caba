"""The bound ladder as a method: gradients and tangents between linear bounds, and a search.

The gradient of y . f is bounded entry by entry (FastLip, with linear back-substitution through the
switches), and so are the outputs' derivatives in all directions of the unit ball; the smaller of
the two norms is the upper end.  The lower end comes from the incumbent search.
"""

from __future__ import annotations

import numpy as np

from lipyomo.bounds import LayerBounds, adjoint_bounds, tangent_bounds
from lipyomo.bounds.derivative import Rung
from lipyomo.errors import MethodError
from lipyomo.incumbent import search_incumbent
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import Clock, domain_bounds, rounded_up, upper_result
from lipyomo.network import FloatArray
from lipyomo.norms import DUAL, vector_norm
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result, Status, close_enough
from lipyomo.settings import Settings

MAX_VERTICES = 512
"""Most vertices of the dual ball that are bounded one by one."""


def gradient_bound(problem: LipschitzProblem, bounds: LayerBounds, rung: Rung = "linear") -> float:
    """Upper bound of the constant from bounds of adjoints and tangents.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs (a reduced one).
    bounds : LayerBounds
        Of the pre-activations over its domain.
    rung : {'linear', 'interval'}, optional

    Returns
    -------
    float
        Safe against rounding.
    """
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) > MAX_VERTICES:
        return min(_by_adjoint(problem, bounds, None, rung), _by_tangent(problem, bounds, rung))
    adjoint = max(_by_adjoint(problem, bounds, y, rung) for y in vertices)
    scalar = problem.network.with_functional(vertices)
    ends = tangent_bounds(scalar, None, bounds, problem.input_norm, rung)
    return min(adjoint, float(np.maximum(-ends.end_lower, ends.end_upper).max()))


def _by_adjoint(
    problem: LipschitzProblem, bounds: LayerBounds, y: FloatArray | None, rung: Rung
) -> float:
    """Dual norm of the largest absolute gradient, for one functional or the whole dual ball."""
    over = problem.output_norm if y is None else y
    found = adjoint_bounds(problem.network, None, bounds, over, rung)
    size = np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))
    return rounded_up(float(vector_norm(size, DUAL[problem.input_norm])), 2 * size.size)


def _by_tangent(problem: LipschitzProblem, bounds: LayerBounds, rung: Rung) -> float:
    """Norm of the largest absolute output derivatives; l1 and l2 norms grow with each entry."""
    found = tangent_bounds(problem.network, None, bounds, problem.input_norm, rung)
    size = np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))
    return rounded_up(float(problem.output_norm.value(size)), 2 * size.size)


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Bound the constant from both sides.

    Options
    -------
    evaluations : int
        Points of the incumbent search; 0 (the default) chooses by the network's size.
    """
    asked = settings.options.get("evaluations", 0)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        raise MethodError(f"option evaluations must be a whole number from 0 on, not {asked}")
    clock = Clock(settings)
    small = problem.reduced.problem
    bounds = domain_bounds(small, settings)
    upper = gradient_bound(small, bounds, "interval" if settings.bounds == "interval" else "linear")
    result = upper_result("interval", upper, clock, {})
    result.unstable, result.bounds = bounds.unstable, bounds.rung
    result.history.append((clock.seconds, 0.0, upper))
    rng = np.random.default_rng(settings.seed)
    witness, lower = search_incumbent(problem, rng, asked or None, max(clock.left, 0.0))
    result.witness, result.lower = witness, lower
    result.upper = max(upper, lower)
    result.seconds = clock.seconds
    result.history.append((clock.seconds, lower, result.upper))
    if witness is None:
        result.warnings.append("no point was found that is off every kink and inside the domain")
    elif close_enough(lower, result.upper):
        result.status = Status.EXACT
    elif settings.gap > 0 and result.upper - lower <= settings.gap * result.upper:
        result.status = Status.GAP
    elif clock.expired:
        result.status = clock.status(done=False)
    return result


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
