"""NaiveUB: the product of the layers' operator norms."""

from __future__ import annotations

import numpy as np

from lipyomo.base.numerics.rounding import rounded_up
from lipyomo.methods.options import choice
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.problems.norms import InputNorm
from lipyomo.problems.operator_norm import norms_of_layers
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "naive",
    "NaiveUB",
    Guarantee.UPPER,
    "Jordan and Dimakis (NeurIPS 2020), appendix F.2; Szegedy et al. (2013)",
    options={"norms": "asked"},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Multiply the layers' norms.

    Options
    -------
    norms : {'asked', 'paper'}
        ``asked`` measures hidden layers in the problem's input norm, and the last layer from this
        to the output norm.  ``paper`` multiplies spectral norms (the last one from l2 to the output
        norm) and scales by sqrt(d) for l1 and linf inputs, like the LipMIP paper (appendix F.2).
    """
    form = choice(run, "norms", ("asked", "paper"))
    small = run.problem.reduced.problem
    norm: InputNorm = small.norm if form == "asked" else "l2"
    factors = norms_of_layers(small.tangent_network, norm, small.output_norm)
    if form == "paper" and small.norm != "l2":
        factors.insert(0, rounded_up(float(np.sqrt(small.tangent_network.input_dim)), 1))
    run.record(factors=factors, norms=form)
    run.drop_upper(rounded_up(float(np.prod(factors)), len(factors)))
    return run.result()
