"""RandomLB: the largest gradient norm at random points of the domain."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import Clock, best_witness, lower_result, whole_number
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.settings import Settings

_BATCH = 1024
_SAMPLES = 1000


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Evaluate the Jacobian's norm at random points (LipMIP paper, appendix F.1).

    Options
    -------
    samples : int
        Number of points, 1000 by default as in the paper.
    """
    samples = whole_number(settings, "samples", _SAMPLES)
    clock, rng = Clock(settings), np.random.default_rng(settings.seed)
    small = problem.reduced.problem
    points, values = [], []
    drawn = 0
    while drawn < samples and (drawn == 0 or not clock.expired):
        batch = small.domain.sample(rng, min(_BATCH, samples - drawn))
        found = small.values(batch)
        keep = np.argsort(-found)[:16]
        points.append(batch[keep])
        values.append(found[keep])
        drawn += len(batch)
    original = np.array([problem.reduced.lift_point(x) for x in np.concatenate(points)])
    witness = best_witness(problem, original, np.concatenate(values))
    return lower_result("random_lb", witness, clock, {"samples": drawn}, drawn >= samples)


register(
    Method(
        name="random_lb",
        title="RandomLB",
        guarantee=Guarantee.LOWER,
        reference="Jordan and Dimakis (NeurIPS 2020), appendix F.1",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
        options={"samples": _SAMPLES},
    )
)
