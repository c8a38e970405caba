"""Warm starts of a root from the multipliers of a similar problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.relaxations.semidefinite.bounder import shaped
from lipyomo.relaxations.semidefinite.ellipsoids import enlarged
from lipyomo.relaxations.semidefinite.root import RootBounds


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
