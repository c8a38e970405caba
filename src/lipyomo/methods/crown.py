"""CROWN of the Clarke Jacobian: back-substitution of the gradient's norm as a whole."""

from __future__ import annotations

from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import affine_bound, run_cascade
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "crown",
    "joint CROWN",
    Guarantee.UPPER,
    "Shi et al., Efficiently computing local Lipschitz constants (NeurIPS 2022)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Back-substitute linear bounds of the switches, from the norm of the gradient to the outputs.

    The norm is treated as one more layer of units behind the gradient, so that its entries share
    relaxation errors instead of each counting its own.  For linf inputs this is the bound of Shi et
    al.; for l2 inputs the squares of the entries are replaced by their chords; for l1 inputs the
    bound is that of the largest entry.  Vector outputs with few vertices of the dual ball are
    treated one vertex at a time, the worst first.  Smooth networks also get a bound that is affine
    in the inputs, with slopes and values of their units relaxed together.
    """
    run_cascade(run, ("entries", "joint"))
    affine_bound(run)
    return run.result()
