"""Branch and bound with semidefinite node bounds: exact, for every pair of norms and any domain."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np

from lipyomo.ladder import QUICK
from lipyomo.methods.registry import method
from lipyomo.methods.support import MOST_BYTES, climbed, search_bytes
from lipyomo.network import FloatArray
from lipyomo.phases import open_phases
from lipyomo.regions.witness import witness_near
from lipyomo.result import Guarantee, Result, Status
from lipyomo.run import Run
from lipyomo.sampling.local_search import search_incumbent

MANY = 64
"""Open units from which on the first semidefinite bound is not there at once."""

ZERO_POINTS = 16
"""Points that are tried for a witness of a constant of zero."""


FIRST_SHARE = 0.25
"""Of the time, for a local search in such a network before its bounds are known."""


@method(
    "bnb",
    "branch and bound, semidefinite",
    Guarantee.EXACT,
    "this project (node bounds: semidefinite multipliers, Cauchy-Schwarz)",
    unbounded=True,
)
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

    problem, reduced = run.problem, run.problem.reduced

    def tell(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if point is not None:
            run.raise_lower(witness_near(problem, point))
        run.show(upper, nodes, message)

    network, rng = reduced.problem.network, np.random.default_rng(run.settings.seed)
    vertices = problem.dual_vertices
    count = network.output_dim if vertices is None else len(vertices)
    if search_bytes(network, count, open_phases(network)) > MOST_BYTES:
        share = FIRST_SHARE * run.left if math.isfinite(run.left) else math.inf
        run.raise_lower(search_incumbent(problem, rng, None, run.clock.within(share)))
    ladder = climbed(run, QUICK)
    if problem.is_scalar and ladder.bounds.unstable > MANY and not run.expired:
        ladder.climb(("joint",))  # of one functional it costs little, and comes before the search
    large = search_bytes(network, count, ladder.bounds.phases) > MOST_BYTES
    if large:
        run.warn("the network is too large to branch in memory: its bounds are those of the ladder")
    if large or run.expired:
        ladder.climb(("joint",))
        run.drop_upper(ladder.value)
        if run.witness is None or not run.expired:
            run.raise_lower(search_incumbent(problem, rng, None, run.clock))
        return run.result()
    outcome = Search(
        reduced.problem, run.settings, run.clock, tell, ladder=ladder, report=run.drop_upper
    ).run()
    if outcome.point is not None:
        run.raise_lower(witness_near(problem, outcome.point))
    if run.witness is None:  # nothing exceeds zero, which any interior point attains
        for x in reduced.problem.domain.sample(rng, ZERO_POINTS):
            if run.raise_lower(witness_near(problem, x)):
                break
    run.drop_upper(outcome.upper)
    counters = asdict(outcome.counters)
    if counters["unresolved"]:
        run.warn(
            f"{counters['unresolved']} regions are too thin to decide whether they have interior"
        )
    run.nodes = outcome.counters.nodes
    run.record(root_bound=outcome.root, **counters)
    done = outcome.status in (Status.EXACT, Status.GAP)
    same = [v.units for v in network.hidden] == [v.units for v in problem.network.hidden]
    promises = outcome.promises if same else None
    return run.result(done, unstable=outcome.open_units, promises=promises)
