"""The semidefinite bound over unstable units: an upper bound in milliseconds."""

from __future__ import annotations

from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.semidefinite import run_semidefinite
from lipyomo.methods.support import affine_bound, run_cascade
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import QUICK


@method(
    "sdp",
    "semidefinite bound over unstable units",
    Guarantee.UPPER,
    "this project (semidefinite multipliers; compare LipSDP, Fazlyab et al. 2019)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Bound the constant over the switches of all units that are unstable on the domain.

    The cheap stages of the cascade and bounds in closed form come first.  The semidefinite bound is
    improved as long as there is time, and every step gives a valid bound.
    """
    cascade = run_cascade(run, QUICK)
    affine_bound(run)
    run.record(newton_steps=run_semidefinite(run, cascade, run.clock))
    return run.result()
