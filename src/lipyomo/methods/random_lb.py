"""RandomLB: the largest gradient norm at random points of the domain."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.options import count_option
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import best_witness
from lipyomo.primal.heuristics.evaluate import evaluation_work, sampled_norms
from lipyomo.primal.heuristics.params import PARAMS as SAMPLING
from lipyomo.problems.problem import LOOKS
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "random_lb",
    "RandomLB",
    Guarantee.LOWER,
    "Jordan and Dimakis (NeurIPS 2020), appendix F.1",
    options={"samples": 1000},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Evaluate the Jacobian's norm at random points (LipMIP paper, appendix F.1).

    Options
    -------
    samples : int
        Number of points, 1000 by default as in the paper.
    """
    samples = count_option(run, "samples")
    rng, reduced = np.random.default_rng(run.settings.seed), run.problem.reduced
    small = reduced.problem
    points, values = [], []
    drawn, most = 0, int(np.clip(SAMPLING.poll_work / evaluation_work(small), 1, samples))
    late = run.clock.steps()
    while drawn < samples and (drawn == 0 or not late()):
        batch = small.domain.sample(rng, min(most, samples - drawn))
        found = sampled_norms(small, batch)
        keep = np.argsort(-found)[:LOOKS]
        points.append(batch[keep])
        values.append(found[keep])
        drawn += len(batch)
    original = np.array([reduced.lift_point(x) for x in np.concatenate(points)])
    run.raise_lower(best_witness(run.problem, original, np.concatenate(values)))
    run.record(samples=drawn)
    return run.result(drawn >= samples)
