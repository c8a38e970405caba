"""ECLipsE: LipSDP layer by layer in closed form, for deep networks."""

from __future__ import annotations

import math

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import domain_bounds, few_vertices, upper_result
from lipyomo.network import FloatArray
from lipyomo.norms import L1Output, L2Output
from lipyomo.numerics.rounding import rounded_up
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run
from lipyomo.semidefinite.ellipsoids import forward_ellipsoids


def _start(problem: LipschitzProblem) -> FloatArray:
    """Squared half-axes of an ellipsoid around the unit ball of the input norm.

    The cube lies in ``sum_j p_j v_j^2 <= 1`` for any p >= 0 with sum one; p_j follows the length of
    the columns of the first weight.  The l1 ball lies in the Euclidean one.
    """
    d = problem.network.input_dim
    if problem.input_norm != "linf":
        return np.ones(d)
    lengths = np.sqrt(np.square(problem.network.layers[0].dense_weight).sum(axis=0))
    if not lengths.any():
        return np.full(d, float(d))
    share = np.maximum(lengths, 1e-9 * lengths.max())
    return np.asarray(share.sum() / share * (1.0 + 1e-12))


def run(run: Run) -> Result:
    """Carry an ellipsoid of tangents from the inputs to the outputs."""
    small = run.problem.reduced.problem
    bounds = domain_bounds(run)
    start, norm = _start(small), small.output_norm
    m = small.network.output_dim
    if isinstance(norm, L2Output):
        gram = forward_ellipsoids(small.network, bounds.phases, start, np.eye(m))
        upper = math.sqrt(max(float(np.linalg.eigvalsh(gram)[-1]), 0.0))
    elif isinstance(norm, L1Output) and m > 1:
        gram = forward_ellipsoids(small.network, bounds.phases, start, np.eye(m))
        upper = float(np.sqrt(np.diagonal(gram)).sum())
    else:
        vertices = few_vertices(small, "eclipse")
        grams = [forward_ellipsoids(small.network, bounds.phases, start, y[None]) for y in vertices]
        upper = math.sqrt(max(float(gram[0, 0]) for gram in grams))
    return upper_result(
        run, rounded_up(upper, 1000 * m), unstable=bounds.unstable, bounds=bounds.rung
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
