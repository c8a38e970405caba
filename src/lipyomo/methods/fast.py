"""An upper bound in a few hundredths of a second, warm started from the last call.

Multipliers of semidefinite bounds hardly change from one state of a network in training to the
next, and any multipliers with a definite matrix prove a bound.  So those of the last network of the
same shape are as good a start as a descent of many steps.
"""

from __future__ import annotations

from typing import TypeAlias

from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.semidefinite import root_bounds
from lipyomo.methods.support import form_fits, run_cascade
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import QUICK
from lipyomo.relaxations.semidefinite.start import Start, start_of, started

SECONDS, FIRST = 0.05, 1.0
"""Time limits of a call, and of the first one for a shape, which has no warm start."""

REMEMBERED = 16
"""Number of shapes, the last ones used, whose multipliers are kept."""

Shape: TypeAlias = tuple[object, ...]
_LAST: dict[Shape, Start] = {}


@method(
    "fast",
    "semidefinite bound from the last call's multipliers",
    Guarantee.UPPER,
    "this project (as sdp; for the same network again and again, as in training)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Bound the constant like `sdp`, from the multipliers of the last problem of this shape.

    A call ends after a twentieth of a second, the first one for a shape after a second.  Steps that
    have begun by then are finished: bounds of pre-activations, which take longer on large networks,
    and the proof of the first bound.
    """
    cascade = run_cascade(run, QUICK)
    if not form_fits(run, cascade.bounds.phases):
        return run.result()
    try:
        root = root_bounds(run, cascade.bounds, cascade)
    except MethodError as error:
        run.warn(f"{error}: the bound is that of cheaper methods")
        return run.result()
    shape = _shape(run.problem, root.form.inputs, len(root.targets.functionals))
    last = _LAST.pop(shape, None)
    limit = FIRST if last is None else SECONDS
    left = min(max(limit - run.clock.seconds, 0.0), run.clock.left)
    clock = Clock(left, lambda: run.clock.interrupted)  # its end does not expire the run
    if last is not None:
        root = started(root, last)
    root = root.run(clock=clock, report=run.drop_upper)
    run.drop_upper(root.value)
    _LAST[shape] = start_of(root) if last is None else start_of(root).after(last)
    while len(_LAST) > REMEMBERED:
        del _LAST[next(iter(_LAST))]
    run.record(newton_steps=root.steps)
    return run.result()


def _shape(problem: LipschitzProblem, inputs: int, functionals: int) -> Shape:
    """Return a key that is equal for problems whose multipliers can be exchanged."""
    norms = problem.norm, problem.output_norm.name, problem.functional is None
    return problem.network.sizes, norms, inputs, functionals
