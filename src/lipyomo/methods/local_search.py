"""Local search for a point with a large Jacobian norm."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import Clock, lower_result, whole_number
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.sampling.local_search import search_incumbent
from lipyomo.settings import Settings


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Sample, move the best points, and step from region to region.

    Options
    -------
    evaluations : int
        Points to evaluate; 0, the default, lets the network's size decide.
    """
    clock = Clock(settings)
    evaluations = whole_number(settings, "evaluations", 0, least=0) or None
    rng = np.random.default_rng(settings.seed)
    witness, _ = search_incumbent(problem, rng, evaluations, clock.left)
    return lower_result("local_search", witness, clock, {}, not clock.expired)


register(
    Method(
        name="local_search",
        title="Local search LB",
        guarantee=Guarantee.LOWER,
        reference="lipyomo",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
        options={"evaluations": 0},
    )
)
