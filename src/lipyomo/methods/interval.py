"""The cheap rungs of the ladder as a method: linear bounds of gradients and tangents.

The gradient of y . f is bounded entry by entry and by its norm as a whole, and so are the outputs'
derivatives in all directions of the unit ball; the least of these is the upper end.
"""

from __future__ import annotations

from lipyomo.ladder import RUNGS, UpperRung
from lipyomo.methods.registry import method
from lipyomo.methods.support import climbed
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run

INTERVALS: tuple[UpperRung, ...] = ("entries",)


@method(
    "interval",
    "Interval",
    Guarantee.UPPER,
    "Weng et al. (ICML 2018); Zhang et al. (NeurIPS 2018); Shi et al. (NeurIPS 2022)",
    unbounded=True,
)
def run(run: Run) -> Result:
    """Climb the cheap rungs; ``bounds`` says how pre-activations are bounded."""
    climbed(run, INTERVALS if run.settings.bounds == "interval" else RUNGS)
    return run.result()
