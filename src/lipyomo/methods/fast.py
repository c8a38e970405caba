"""An upper bound in a few hundredths of a second, warm started from the last call.

Multipliers of semidefinite bounds hardly change from one state of a network in training to the
next, and any multipliers with a definite matrix prove a bound.  So those of the last network of the
same shape are as good a start as a descent of many steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.semidefinite import root_bounds
from lipyomo.methods.support import form_fits, run_cascade
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import QUICK
from lipyomo.relaxations.semidefinite.bounder import shaped
from lipyomo.relaxations.semidefinite.ellipsoids import enlarged
from lipyomo.relaxations.semidefinite.root import RootBounds

SECONDS, FIRST = 0.05, 1.0
"""Time limits of a call, and of the first one for a shape, which has no warm start."""

REMEMBERED = 16
"""Number of shapes, the last ones used, whose multipliers are kept."""


@dataclass(frozen=True, eq=False)
class Start:
    """Multipliers of a problem, to start others of the same shape.

    Attributes
    ----------
    units : ndarray of int, shape (F,)
        Its unstable units.
    multipliers : mapping of int to (ndarray, ndarray)
        Zeta (d,) and lambda (F,) by target.
    """

    units: IntArray
    multipliers: Mapping[int, tuple[FloatArray, FloatArray]]

    def fitted(self, lam: FloatArray, units: IntArray) -> FloatArray:
        """Convert lambda to other unstable units; new ones get the median."""
        usual = float(np.median(lam)) if lam.size else 1.0
        place = np.full(max(self.units.max(initial=-1), units.max(initial=-1)) + 1, usual)
        place[self.units] = lam
        return np.asarray(place[units])

    def after(self, other: Start) -> Start:
        """Add an earlier start's multipliers for targets without any."""
        own = other.multipliers.items()
        known = {t: (zeta, other.fitted(lam, self.units)) for t, (zeta, lam) in own}
        return Start(self.units, known | dict(self.multipliers))


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
        _, root = root_bounds(run, cascade.bounds, cascade)
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


def started(root: RootBounds, start: Start) -> RootBounds:
    """Start a root with the multipliers of a similar problem instead of a closed form.

    Zeta is enlarged until C is definite; targets for which it never is are skipped.
    """
    units, bounder = root.form.units, root.bounder
    if not units.size or not root.cost.fits:
        return root
    best = math.inf
    for target, (zeta, lam) in start.multipliers.items():
        kernel = bounder.kernel(root.form, target)
        if kernel.outputs or zeta.size != root.form.inputs:
            continue
        lam = start.fitted(lam, units)
        y = bounder.fitted(kernel, target, zeta, lam)
        found = enlarged(y, kernel.inputs, kernel.factor, growth=1.05, tries=20)
        if found is None:
            continue
        root = root.proved(target, found)
        if root.known is None or root.upper[target] > best:
            best, known = float(root.upper[target]), (zeta * (found[0] / y[0]), lam)
            root = replace(root, known=known)
    return root


def start_of(root: RootBounds) -> Start:
    """Return the multipliers of the targets that were lowered, for `started`."""
    found, inputs, units = {}, root.form.inputs, root.form.units
    for target, descent in root.descents.items():
        kernel, best = descent.kernel, descent.best
        spans = kernel.euclidean or kernel.inputs == inputs  # all inputs of the form
        if best is None or kernel.outputs or not spans:
            continue
        zeta = shaped(best.multipliers[: kernel.inputs], inputs, kernel.euclidean)
        end = kernel.inputs + units.size
        found[target] = zeta, best.multipliers[kernel.inputs : end]
    return Start(units, found)
