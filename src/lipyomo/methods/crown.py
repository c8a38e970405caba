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
    """Substitute linear bounds of the switches back, from the norm of the gradient to the outputs.

    The norm is one more layer of units behind the gradient, so that the errors of the relaxation
    are shared by the entries instead of being counted once an entry.  For linf inputs this is the
    bound of Shi et al.; for l2 inputs the squares of the entries are below their chords; for l1
    inputs the largest entry decides.  Vector outputs are treated one vertex of the dual ball at a
    time, the worst first, while these are few.  Smooth networks also get a bound that is affine in
    the inputs, slopes and values of their units being relaxed together.
    """
    run_cascade(run, ("entries", "joint"))
    affine_bound(run)
    return run.result()
