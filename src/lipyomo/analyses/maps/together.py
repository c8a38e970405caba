"""Bounding problems together that differ in their boxes only, before each is solved alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.params import PARAMS
from lipyomo.analyses.maps.stages import BoundingConstants, Job, shares
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.parallel import Workers
from lipyomo.methods.registry import get_method
from lipyomo.primal.regions.witness import make_witness
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings

EXACT = "bnb"
"""The method to which the results are attributed."""


def joins(method: str, settings: Settings) -> bool:
    """Return whether a method and settings allow problems to be bounded together."""
    plain = settings.solver == "auto" and settings.formulation == "auto" and not settings.options
    return method in ("auto", EXACT) and plain and not settings.rational and not settings.verbose


def answered_together(
    problems: Sequence[LipschitzProblem], settings: Settings, pool: Workers[Any, Any]
) -> dict[int, Result]:
    """Solve problems in batches; return the results of those that this closes, by index.

    Parameters
    ----------
    problems : sequence of LipschitzProblem
    settings : Settings
        The time limit applies to each problem.
    pool : Workers
        Runs the batches.

    Returns
    -------
    dict of int to Result
        Results, each with a witness that is verified like that of any other result.
    """
    found: dict[int, Result] = {}
    for places in _alike(problems):
        low, high = (
            np.array([getattr(problems[k].domain, end) for k in places])
            for end in ("lower", "upper")
        )
        try:
            over = problems[places[0]].over(Cells(low, high).hull)
            bounding = BoundingConstants(over, settings.gap)
            if get_method(EXACT).refusal(over) is not None or not bounding.able:
                continue
        except LipyomoError:  # solving each problem alone raises it again
            continue
        same = ((low == high) == over.domain.frozen).all(axis=1)
        chosen, low, high = np.asarray(places)[same], low[same], high[same]
        parts = shares(PARAMS, len(chosen), pool.count)
        jobs = (Job(low[part], high[part], settings.time_limit) for part in parts)
        for number, ends in pool.run(bounding, jobs):
            if isinstance(ends, Ends):
                own = chosen[parts[number]]
                found |= dict(_answers(problems, own.tolist(), ends, settings))
    return found


def _alike(problems: Sequence[LipschitzProblem]) -> list[list[int]]:
    """Group the indices of problems on bounded boxes by network and norms, two or more each."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, problem in enumerate(problems):
        domain, norm = problem.domain, problem.output_norm
        few = problem.network.input_dim <= PARAMS.inputs
        if few and domain.is_box and domain.is_bounded and problem.directions is None:
            norm_key = id(norm) if norm.kind == "linear" else norm.name
            c = None if problem.functional is None else problem.functional.tobytes()
            key = id(problem.network), problem.norm, norm_key if c is None else c
            groups.setdefault(key, []).append(k)
    return [places for places in groups.values() if len(places) > 1]


def _answers(
    problems: Sequence[LipschitzProblem], places: Sequence[int], ends: Ends, settings: Settings
) -> Iterator[tuple[int, Result]]:
    """Generate the results of the problems whose gaps are closed by verified witnesses."""
    for k, upper, point in zip(places, ends.upper.tolist(), ends.points, strict=True):
        problem = problems[k]
        run = Run(problem, settings, EXACT, clock=Clock())
        run.raise_lower(make_witness(problem, point))
        run.drop_upper(upper)
        if run.witness is not None and run.closed:
            run.warn(*problem.notes)
            run.count(1)
            run.record(together=len(places))
            yield k, run.result(done=True)
