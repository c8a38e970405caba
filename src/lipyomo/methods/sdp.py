"""The semidefinite bound over the open switches: an upper bound in milliseconds."""

from __future__ import annotations

from lipyomo.ladder import QUICK
from lipyomo.methods.registry import method
from lipyomo.methods.support import climbed, form_fits, form_seconds, root_bounds
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run
from lipyomo.semidefinite.root import climb_root


@method(
    "sdp",
    "semidefinite bound over the open switches",
    Guarantee.UPPER,
    "this project (semidefinite multipliers; compare LipSDP, Fazlyab et al. 2019)",
    unbounded=True,
)
def run(run: Run) -> Result:
    """Bound the constant over all switches that the domain's pre-activation bounds leave open.

    The cheap rungs of the ladder and bounds in closed form come first; the semidefinite one goes on
    as long as there is time, and every step of it is an answer.
    """
    ladder = climbed(run, QUICK)
    bounds, network = ladder.bounds, run.problem.reduced.problem.network
    if ladder.targets.count * ladder.predicted("joint") < form_seconds(network, bounds.phases):
        ladder.climb(("joint",))
        run.drop_upper(ladder.value)
    if not form_fits(run, bounds.phases):
        ladder.climb(("joint",))
        run.drop_upper(ladder.value)
        return run.result(done=False)
    root = root_bounds(run, bounds, ladder)
    climb_root(root, ladder, run.clock, report=run.drop_upper)
    run.drop_upper(root.value)
    run.record(newton_steps=root.steps)
    return run.result()
