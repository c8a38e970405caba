"""The semidefinite bound at the root of branch and bound: an upper bound in milliseconds."""

from __future__ import annotations

import numpy as np

from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import upper_result
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run


def run(run: Run) -> Result:
    """Bound the constant over all switches that the domain's pre-activation bounds leave open.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Result
    """
    from lipyomo.bnb.tree import Tree

    tree = Tree(run.problem.reduced.problem, np.random.default_rng(run.settings.seed))
    found = tree.root_bound()
    run.record(newton_steps=found.steps)
    return upper_result(run, found.upper, unstable=found.open_units, bounds="linear")


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
