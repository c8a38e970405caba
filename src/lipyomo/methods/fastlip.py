"""FastLip: interval bounds of the gradient by one backward pass."""

from __future__ import annotations

from typing import cast

import numpy as np

from lipyomo.bounds import LayerBounds, adjoint_bounds
from lipyomo.bounds.derivative import Rung
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import (
    MAX_VERTICES,
    choice,
    domain_bounds,
    upper_result,
)
from lipyomo.network import FloatArray
from lipyomo.norms import DUAL, OutputNorm, vector_norm
from lipyomo.numerics.rounding import rounded_up
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run


def gradient_norm(
    problem: LipschitzProblem, bounds: LayerBounds, set_: FloatArray | OutputNorm, rung: Rung
) -> float:
    """Largest dual norm of a gradient within the bounds, for functionals in a set."""
    found = adjoint_bounds(problem.network, None, bounds, set_, rung=rung)
    size = np.maximum(np.abs(found.end_lower), np.abs(found.end_upper))
    return rounded_up(float(vector_norm(size, DUAL[problem.input_norm])), 2 * size.size)


def run(run: Run) -> Result:
    """Bound every entry of the gradient and take the dual norm of the largest absolute values.

    Units that the domain decides are fixed; the others may be on either slope.  Vector outputs
    are treated one vertex of the dual ball at a time while these are few.

    Options
    -------
    adjoints : {'interval', 'linear'}
        ``interval`` is FastLip.  ``linear`` also substitutes linear bounds of the switches back to
        the outputs (as CROWN does for pre-activations), which is never worse.
    """
    rung = cast(Rung, choice(run.settings, "adjoints", ("interval", "linear")))
    small = run.problem.reduced.problem
    bounds = domain_bounds(run)
    vertices = small.dual_vertices
    if vertices is not None and len(vertices) <= MAX_VERTICES:
        upper = max(gradient_norm(small, bounds, y, rung) for y in vertices)
    else:
        upper = gradient_norm(small, bounds, small.output_norm, rung)
    run.record(adjoints=rung)
    return upper_result(run, upper, unstable=bounds.unstable, bounds=bounds.rung)


register(
    Method(
        name="fastlip",
        title="FastLip",
        guarantee=Guarantee.UPPER,
        reference="Weng et al., Towards fast computation of certified robustness (ICML 2018)",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
        options={"adjoints": "interval"},
    )
)
