"""The cheap stages of the cascade as a method: linear bounds of gradients and tangents.

The gradient of y . f is bounded entry by entry and by its norm as a whole, and so are the outputs'
derivatives in all directions of the unit ball; the result is the lowest of these bounds.
"""

from __future__ import annotations

from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import run_cascade
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import STAGES


@method(
    "interval",
    "Interval",
    Guarantee.UPPER,
    "Weng et al. (ICML 2018); Zhang et al. (NeurIPS 2018); Shi et al. (NeurIPS 2022)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Run the cheap stages; the setting ``bounds`` selects how pre-activations are bounded."""
    run_cascade(run, ("entries",) if run.settings.bounds == "interval" else STAGES)
    return run.result()
