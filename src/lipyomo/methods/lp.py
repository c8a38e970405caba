"""LipLP: an upper bound by the linear relaxation of either encoding."""

from __future__ import annotations

from lipyomo.methods.mip import MODELLED
from lipyomo.methods.registry import LINEAR, method
from lipyomo.methods.support import model_fits
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "lp",
    "LipLP",
    Guarantee.UPPER,
    "Jordan and Dimakis 2020 (LipLP); adjoint and tangent encodings",
    output_norms=LINEAR,
    **MODELLED,
)
def run(run: Run) -> Result:
    """Bound the constant by one linear program.

    Parameters
    ----------
    run : Run
        Its settings `formulation`, `bounds`, `solver` and `workers` apply to this method.

    Returns
    -------
    Result
        `upper` is the bound, recomputed from row duals for HiGHS.
    """
    if not model_fits(run):
        return run.result(done=False)
    from lipyomo.mip.relaxation import relaxed_bound  # loads Pyomo

    return run.result(relaxed_bound(run))
