"""LipMIP: the exact constant by mixed-integer programming, checked.

The bound ladder, an incumbent, and a partition of the domain come first; each cell of the domain
gets a model; every optimum that a solver claims is recomputed from the weights at an interior
point of its region, and cut off if there is none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.arguments import instance
from lipyomo.errors import MethodError
from lipyomo.methods import bnb
from lipyomo.methods.registry import LINEAR, method
from lipyomo.methods.support import model_fits
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run
from lipyomo.sampling.local_search import search_incumbent


def refuses(problem: LipschitzProblem) -> str | None:
    """Why a model of the problem cannot be written, or None if it can."""
    domain = problem.domain
    if domain.is_bounded and domain.polyhedron() is None:
        return (
            f"the domain ({domain.describe()}) is not a polyhedron with few faces, and a "
            "mixed-integer model cannot express it.  Remedy: give a box or a polytope, or use "
            "method bnb"
        )
    return None


@method(
    "mip",
    "LipMIP",
    Guarantee.EXACT,
    "Jordan and Dimakis 2020 (LipMIP); adjoint and tangent encodings",
    input_norms=("linf", "l1"),
    output_norms=LINEAR,
    options={"partition": True},
    refuses=refuses,
)
def run(run: Run) -> Result:
    """Solve the problem to optimality, or narrow the interval until something stops it.

    Parameters
    ----------
    run : Run
        Of its settings, `threads`, `solver`, `formulation` and `bounds` concern this method; option
        ``partition`` (default true) may keep the domain whole.

    Returns
    -------
    Result
    """
    small, settings = run.problem.reduced.problem, run.settings
    split = settings.options.get("partition", True)
    instance(split, bool, "option partition", MethodError, "True or False")
    # Also where bounds alone close the interval and no model is needed.
    asked = None if settings.solver == "auto" else settings.solver
    if not small.network.kinked_units:  # one Jacobian: there is nothing to model
        return replace(bnb.run(run), solver=asked)
    if not model_fits(run):
        if not run.expired:
            rng = np.random.default_rng(settings.seed)
            run.raise_lower(search_incumbent(run.problem, rng, None, run.clock))
        return run.result(done=False)
    from lipyomo.mip.loop import CellLoop
    from lipyomo.mip.model import encoding_of
    from lipyomo.mip.presolve import presolve

    presolved = presolve(run)
    loop = CellLoop(run, presolved)
    loop.solve(presolved.cells)
    run.record(models=loop.models, no_good_cuts=loop.no_good_cuts)
    run.record(probed_unstable=loop.probed_unstable)
    root, encoding = presolved.root, loop.formulation
    if encoding is None and not run.expired:
        encoding = encoding_of(small.network, root, small.input_norm, settings.formulation)
    return run.result(
        unstable=root.bounds.unstable,
        bounds=root.bounds.rung,
        formulation=encoding,
        solver=loop.solver or asked,
    )
