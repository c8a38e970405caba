"""Branch and bound with semidefinite node bounds: exact, for every pair of norms and any domain."""

from __future__ import annotations

import time
from dataclasses import asdict

from lipyomo.methods.registry import Method, register
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.result import Guarantee, Result, Status, close_enough
from lipyomo.settings import Settings


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Search activation patterns and input boxes until the interval closes.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings

    Returns
    -------
    Result
    """
    from lipyomo.bnb.driver import Search

    start = time.perf_counter()
    reduced = problem.reduced
    outcome = Search(reduced.problem, settings).run()
    witness = None
    if outcome.point is not None:
        witness = make_witness(problem, reduced.lift_point(outcome.point))
    warnings = []
    lower = outcome.lower if witness is None else witness.value
    if witness is None:
        lower = 0.0
        warnings.append("no interior point was found: nothing is attained yet")
    upper = max(outcome.upper, lower)
    status = outcome.status
    if status is Status.EXACT and not close_enough(lower, upper):
        status = Status.GAP
    counters = asdict(outcome.counters)
    if counters["unresolved"]:
        warnings.append(
            f"{counters['unresolved']} regions are too thin to decide whether they have interior"
        )
    return Result(
        lower,
        upper,
        status,
        "bnb",
        Guarantee.EXACT,
        seconds=time.perf_counter() - start,
        nodes=outcome.counters.nodes,
        unstable=outcome.open_units,
        bounds="linear",
        witness=witness,
        warnings=warnings,
        history=outcome.history,
        details={"root_bound": outcome.root, **counters},
    )


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
