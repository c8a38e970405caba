"""Local search for a point with a large Jacobian norm."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.options import count_option
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import domain_bounds
from lipyomo.primal.heuristics.local_search import search_incumbent
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.search.spaces.boxes.ascent import smooth_incumbent


@method(
    "local_search",
    "Local search LB",
    Guarantee.LOWER,
    "lipyomo",
    options={"evaluations": 0},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Sample, improve the best points, and walk from region to region; ascend on smooth networks.

    Options
    -------
    evaluations : int
        Points to evaluate; with 0, the default, their number depends on the network's size.
    """
    evaluations = count_option(run, "evaluations", least=0) or None
    rng = np.random.default_rng(run.settings.seed)
    if run.problem.network.smooth:
        run.raise_lower(smooth_incumbent(run.problem, rng, evaluations, run.clock))
        return run.result()
    phases = domain_bounds(run).phases  # stable units need no search
    run.raise_lower(search_incumbent(run.problem, rng, evaluations, run.clock, phases))
    return run.result()
