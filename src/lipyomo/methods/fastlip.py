"""FastLip: interval bounds of the gradient by one backward pass."""

from __future__ import annotations

from lipyomo.methods.options import choice
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import run_cascade
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method(
    "fastlip",
    "FastLip",
    Guarantee.UPPER,
    "Weng et al., Towards fast computation of certified robustness (ICML 2018)",
    options={"adjoints": "interval"},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Bound every entry of the gradient and take the dual norm of the largest absolute values.

    Units that the domain decides are fixed; the others may be on either slope.  Vector outputs
    are treated one vertex of the dual ball at a time while these are few.

    Options
    -------
    adjoints : {'interval', 'linear'}
        ``interval`` is FastLip.  ``linear`` also substitutes linear bounds of the switches back to
        the outputs, entry by entry and for the norm as a whole (method ``crown``), which is never
        worse.
    """
    kind = choice(run, "adjoints", ("interval", "linear"))
    run_cascade(run, ("entries",) if kind == "interval" else ("entries", "joint"))
    run.record(adjoints=kind)
    return run.result()
