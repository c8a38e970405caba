"""LipLP: the linear relaxation of either encoding, an upper bound beside a sampled lower one."""

from __future__ import annotations

import math
from typing import Any

from lipyomo.methods.mip import check_domain
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import Clock
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result, Status
from lipyomo.settings import Settings


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Bound the constant by one linear program.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings
        `formulation`, `bounds`, `solver`, `time_limit` and `threads` concern this method.

    Returns
    -------
    Result
        `upper` is the bound, recomputed from row duals for HiGHS; `lower` is the value at the best
        of a few random points.

    Raises
    ------
    DomainError
        If the domain is unbounded or curved.
    """
    from lipyomo.mip.relaxation import relaxed_bound, sampled_witness

    check_domain(problem)
    clock = Clock(settings)
    facts: dict[str, Any] = {}
    upper, notes = relaxed_bound(problem.reduced.problem, settings, clock, facts)
    witness = sampled_witness(problem, settings.seed)
    lower = 0.0 if witness is None else witness.value
    done = facts.pop("done")
    unstable, rung = facts.pop("unstable"), facts.pop("bounds")
    return Result(
        lower,
        max(upper, lower),
        clock.status(done) if not math.isclose(lower, upper, rel_tol=1e-6) else Status.EXACT,
        "lp",
        Guarantee.UPPER,
        formulation=facts.pop("formulation"),
        solver=facts.pop("solver"),
        seconds=clock.seconds,
        unstable=unstable,
        bounds=rung,
        witness=witness,
        warnings=notes,
        details=facts,
    )


METHOD = register(
    Method(
        "lp",
        "LipLP",
        Guarantee.UPPER,
        "Jordan and Dimakis 2020 (LipLP); adjoint and tangent encodings",
        run,
    )
)
