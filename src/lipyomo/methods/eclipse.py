"""ECLipsE: LipSDP layer by layer in closed form, for deep networks."""

from __future__ import annotations

import math

from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.semidefinite import deep_bounds, operator_bound, root_bounds
from lipyomo.methods.support import domain_bounds, fall_back, form_fits, product_bound
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "eclipse",
    "ECLipsE",
    Guarantee.UPPER,
    "Xu and Sivaranjani, ECLipsE (NeurIPS 2024)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Propagate an ellipsoid of tangents from the inputs to the outputs.

    Deep networks are first bounded layer by layer, keeping one layer's signal at a time, and also
    by majorants that are propagated from the outputs to the inputs; the lowest bound counts.
    Layers too large for dense maps, such as convolutions, are applied as operators.
    """
    product_bound(run)
    bounds = domain_bounds(run)
    if (chain := deep_bounds(run, bounds)) is not None:
        run.drop_upper(chain.run(clock=run.clock, closed_only=True).value)
    operator_bound(run, bounds)
    if not form_fits(run, bounds.phases):
        fall_back(run, bounds)
        return run.result(done=False)
    _, root = root_bounds(run, bounds)
    root = root.run(clock=run.clock, report=run.drop_upper, closed_only=True)
    run.drop_upper(root.value)
    if not math.isfinite(root.value) or run.expired:
        fall_back(run, bounds)
    return run.result()
