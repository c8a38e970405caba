"""ECLipsE: LipSDP layer by layer in closed form, for deep networks."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import domain_bounds, few_vertices, upper_result
from lipyomo.norms import L1Output, L2Output
from lipyomo.numerics.rounding import rounded_up
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run
from lipyomo.semidefinite.ellipsoids import closed_form
from lipyomo.semidefinite.reduce import reduce_form
from lipyomo.semidefinite.verify import VerifiedMatrix, bound_from


def run(run: Run) -> Result:
    """Carry an ellipsoid of tangents from the inputs to the outputs."""
    small = run.problem.reduced.problem
    bounds = domain_bounds(run)
    norm, m = small.output_norm, small.network.output_dim
    jointly = isinstance(norm, L2Output)
    summed = isinstance(norm, L1Output) and m > 1
    vertices = np.eye(m) if jointly or summed else few_vertices(small, "eclipse")
    form = reduce_form(small.network, bounds.phases, vertices)
    grouped = small.input_norm != "linf"  # the l1 ball lies in the Euclidean one
    every = np.arange(len(vertices))
    uppers = []
    for rows in [every] if jointly else [every[k : k + 1] for k in every]:
        if run.expired:
            break
        found = closed_form(form.rows, form.objective[rows], form.inputs, grouped)
        matrix = VerifiedMatrix(form, found.zeta, found.lam)
        uppers.append(bound_from(matrix, rows, found.zeta, grouped))
    upper = sum(uppers) if summed else max(uppers, default=np.inf)
    if len(uppers) < (1 if jointly else len(every)):
        upper = np.inf
    return upper_result(
        run, rounded_up(upper, len(uppers)), unstable=bounds.unstable, bounds=bounds.rung
    )


register(
    Method(
        name="eclipse",
        title="ECLipsE",
        guarantee=Guarantee.UPPER,
        reference="Xu and Sivaranjani, ECLipsE (NeurIPS 2024)",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
    )
)
