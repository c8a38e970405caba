"""Branch and bound with semidefinite node bounds: exact, for every pair of norms and any domain."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from lipyomo.methods.registry import Method, register
from lipyomo.regions import make_witness
from lipyomo.result import Guarantee, Result, Status
from lipyomo.run import Run


def run(run: Run) -> Result:
    """Search activation patterns and input boxes until the interval closes.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Result
    """
    from lipyomo.bnb.driver import Search

    problem, settings = run.problem, run.settings
    reduced, began = problem.reduced, run.seconds
    if math.isfinite(settings.time_limit):
        settings = replace(settings, time_limit=max(run.left, 1e-3))
    outcome = Search(reduced.problem, settings).run()
    if outcome.status is Status.INTERRUPTED:
        run.clock.stop()
    run.history += [(began + at, low, high) for at, low, high in outcome.history]
    if outcome.point is not None:
        run.raise_lower(make_witness(problem, reduced.lift_point(outcome.point)))
    run.drop_upper(outcome.upper)
    counters = asdict(outcome.counters)
    if counters["unresolved"]:
        run.warn(
            f"{counters['unresolved']} regions are too thin to decide whether they have interior"
        )
    run.nodes = outcome.counters.nodes
    run.record(root_bound=outcome.root, **counters)
    done = outcome.status in (Status.EXACT, Status.GAP)
    return run.result(done, unstable=outcome.open_units, bounds="linear")


METHOD = register(
    Method(
        "bnb",
        "branch and bound, semidefinite",
        Guarantee.EXACT,
        "this project (node bounds: semidefinite multipliers, Cauchy-Schwarz)",
        run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
    )
)
