"""LipMIP: the exact constant by mixed-integer programming, with checked results.

It starts with the bound cascade, an incumbent, and a partition of the domain into cells, each with
its own model.  Every optimum that a solver claims is recomputed from the weights at an interior
point of its region, and cut off if the region has none.  Finally, branch and bound checks that
nothing exceeds it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lipyomo.base.arguments import instance
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE, refutes
from lipyomo.base.system.processes import MOMENT
from lipyomo.methods import bnb
from lipyomo.methods.registry import LINEAR, method
from lipyomo.methods.support import model_fits
from lipyomo.mip.claims import Claim, disbelief
from lipyomo.mip.params import SHARE
from lipyomo.primal.heuristics.local_search import search_incumbent
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Formulation, Settings


def refuses(problem: LipschitzProblem) -> str | None:
    """Return why the problem cannot be modelled as a mixed-integer program, or None if it can."""
    domain = problem.domain
    if domain.is_bounded and domain.polyhedron() is None:
        return (
            f"the domain ({domain.describe()}) is not a polyhedron with few faces, and a "
            "mixed-integer model cannot express it.  Remedy: give a box or a polytope, or use "
            "method bnb"
        )
    return None


MODELLED: dict[str, Any] = {
    "input_norms": ("linf", "l1"),
    "directions": ("two-slope",),
    "refuses": refuses,
}
"""Fields of the methods that build mixed-integer models."""


@method(
    "mip",
    "LipMIP",
    Guarantee.EXACT,
    "Jordan and Dimakis 2020 (LipMIP); adjoint and tangent encodings",
    output_norms=LINEAR,
    options={"partition": True},
    **MODELLED,
)
def run(run: Run) -> Result:
    """Solve the problem to optimality, or narrow the interval until a limit stops it.

    Parameters
    ----------
    run : Run
        Its settings `workers`, `solver`, `formulation` and `bounds` apply to this method; with the
        option ``partition`` false (default true) the domain is not partitioned.

    Returns
    -------
    Result
    """
    given = run.settings.options.get("partition", True)
    instance(given, bool, "option partition", MethodError, "True or False")
    return solve_encoded(run, run.settings.formulation)


def solve_encoded(run: Run, formulation: Formulation) -> Result:
    """Solve the problem with models of one encoding.

    Parameters
    ----------
    run : Run
    formulation : {'auto', 'adjoint', 'tangent'}

    Returns
    -------
    Result
    """
    small, settings = run.problem.reduced.problem, run.settings
    # reported even if bounds alone close the interval and no model is needed
    asked = None if settings.solver == "auto" else settings.solver
    if not small.network.kinked_units:  # constant Jacobian: nothing to model
        return replace(bnb.run(run), solver=asked)
    if not model_fits(run):
        if not run.expired:
            rng = np.random.default_rng(settings.seed)
            run.raise_lower(search_incumbent(run.problem, rng, None, run.clock))
        return run.result(done=False)
    from lipyomo.mip.loop import CellLoop
    from lipyomo.mip.model import encoding_of
    from lipyomo.mip.presolve import partitioned, presolve_model

    presolved = presolve_model(run)
    loop = CellLoop(run, presolved, formulation)
    run.record(cells=1)
    if not loop.solve_quickly():
        cells, cutoff = partitioned(run, presolved)
        run.record(cells=len(cells))
        loop.solve(cells, cutoff)
    work = loop.work
    run.record(models=work.models, no_good_cuts=work.no_good_cuts)
    run.record(probed_unstable=work.probed_unstable)
    root, encoding = presolved.root, work.formulation
    if encoding is None and not run.expired:
        encoding = encoding_of(small, root, formulation)
    solver = work.solver or asked
    if work.distrusted or not accept(run, loop.claim):
        return replace(bnb.search(run), formulation=encoding, solver=solver)
    return run.result(
        unstable=root.bounds.unstable,
        bounds=root.bounds.relaxation,
        formulation=encoding,
        solver=solver,
    )


def accept(run: Run, claim: Claim | None) -> bool:
    """Check a solver's claim if there is time, and use it as upper bound; return False if refuted.

    The check is branch and bound with the claim as its cutoff, or with the bound that closes the
    interval if that is larger.  The run also gets all that the check proves or attains.  A claim
    that is neither confirmed nor refuted is accepted, unless it is in doubt due to tolerances.
    """
    if claim is None:
        return True
    if run.settings.check_claims and not run.expired:
        closing = run.lower / (1.0 - max(run.settings.gap, EXACT_TOLERANCE)) * (1.0 - 1e-9)
        # a claim in doubt due to tolerances is only used if it is confirmed
        left = run.clock.left
        limit = left if claim.doubt else min(SHARE * claim.seconds + MOMENT, left)
        settings = Settings(seed=run.settings.seed, gap=run.settings.gap, workers=1)
        inner = Run(run.problem, settings, "bnb", clock=Clock(limit, lambda: run.expired))
        bnb.search(inner, max(claim.upper, closing))
        run.raise_lower(inner.witness)
        run.drop_upper(inner.upper)
    if refutes(run.lower, claim.upper):
        run.warn(disbelief(claim.solver, claim.upper, run.lower))
        return run.closed
    if run.closed:
        return True
    if not claim.doubt:
        run.drop_upper(claim.upper, claim.basis)
        return True
    run.warn(
        f"{claim.doubt}, beyond what a solver's tolerances allow for, and the claim of "
        f"{claim.solver} that nothing exceeds {claim.upper:.9g} was not confirmed in time: it is "
        "not used.  Remedy: method bnb"
    )
    return True
