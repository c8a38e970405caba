"""The semidefinite bound at the root of branch and bound: an upper bound in milliseconds."""

from __future__ import annotations

import time

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result, Status
from lipyomo.settings import Settings


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Bound the constant over all switches that the domain's pre-activation bounds leave open.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings

    Returns
    -------
    Result
    """
    from lipyomo.bnb.tree import Tree

    start = time.perf_counter()
    tree = Tree(problem.reduced.problem, np.random.default_rng(settings.seed))
    found = tree.root_bound()
    return Result(
        0.0,
        found.upper,
        Status.BOUNDS,
        "sdp",
        Guarantee.UPPER,
        seconds=time.perf_counter() - start,
        unstable=found.open_units,
        bounds="linear",
        details={"newton_steps": found.steps},
    )


METHOD = register(
    Method(
        "sdp",
        "semidefinite bound over the open switches",
        Guarantee.UPPER,
        "this project (semidefinite multipliers; compare LipSDP, Fazlyab et al. 2019)",
        run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
    )
)
