"""The proof of an upper end: a tree of boxes, and cuts, each of which is checked by a bound.

A case is a box of points x and a box of directions v, for one functional w, and perhaps sides of
breaks on which pre-activations are.  On all of it ``w . J(x) v`` has to be at most U.  Where the
bound does not say so, parts of the box may be cut off on which it does, by the affine upper
function that comes with it; what is left is split in two.

Cases wait on a stack; the last ones are taken together, as many as `bound.Chain.most`.  So a reader
and a writer meet them in the same order, and the file names no box (`steps` has what it says).

What a split leaves inherits the half-space outside of which its affine function is at most U.  A
case also ends where its box lies outside of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo_check.errors import ProofError
from lipyomo_check.formats import Edition
from lipyomo_check.parts import Domain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.cases import (
    Cases,
    Twin,
    are_outside,
    first_cases,
    halves,
    joined,
    last_of,
    twins_of,
)
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.euclid import Frame, Goals, across, framed, goals
from lipyomo_check.smooth.halfspaces import HalfSpaces
from lipyomo_check.smooth.kind import ERROR
from lipyomo_check.smooth.levels import levels_of
from lipyomo_check.smooth.shells import Between
from lipyomo_check.smooth.steps import SHARES, Bytes, Step
from lipyomo_check.statement import Statement


@dataclass(frozen=True, eq=False)
class Taken:
    """Cases that are bounded together.

    Attributes
    ----------
    cases : Cases
        As they waited.
    functionals : ndarray, shape (N, m)
    boxes : Boxes
        The same with their directions (which Euclidean norms choose).
    frame : Frame or None
        Of Euclidean norms.
    bounded : Bounded
    goals : Goals
        What their bounds may be at most.
    may_end : ndarray of bool, shape (N,)
    """

    cases: Cases
    functionals: Array
    boxes: Boxes
    frame: Frame | None
    bounded: Bounded
    goals: Goals
    may_end: npt.NDArray[np.bool_]

    @property
    def least(self) -> Array:
        """Lower bounds (N,) of ``x . X`` where affine functions ``x . X + ...`` reach the goals.

        It is rounded down, further than what arithmetic that is more precise may find, and minus
        infinity if bounds are not finite.
        """
        x, low, high = self.bounded.x, self.cases.boxes.low, self.cases.boxes.high
        bound, most = self.bounded.upper, self.goals.most
        with np.errstate(invalid="ignore", over="ignore"):
            top = np.maximum(x * low, x * high).sum(axis=1)
            size = (np.abs(x) * np.maximum(np.abs(low), np.abs(high))).sum(axis=1)
            room = (x.shape[1] + 16) * ERROR * (np.abs(bound) + np.abs(most) + size)
            found = (most - bound) + top - room
        return np.where(np.isfinite(found), found, -np.inf)

    def part(self, which: npt.NDArray[np.int64]) -> Taken:
        """Return some of them, without what was found in layers on the way."""
        frame = self.frame
        if frame is not None and frame.y is not None:
            frame = frame._replace(y=frame.y[which])
        return Taken(
            self.cases.part(which),
            self.functionals[which],
            self.boxes.part(which),
            frame,
            self.bounded.part(which),
            Goals(*(part[which] for part in self.goals)),
            self.may_end[which],
        )


Decide = Callable[[Taken], Step]
"""Returns the steps of cases, given their bounds."""


@dataclass(frozen=True, eq=False)
class Question:
    """The claim to be proved, in arrays.

    Attributes
    ----------
    chain : Chain
    breaks : list of (int, float)
        Place of the unit among those with breaks, and a break, of each axis after the directions.
    twins : list of list of Twin
        What else is split along each of these axes.
    functionals : ndarray, shape (T, m), or None
        None for the Euclidean norm of several outputs.
    moving : ndarray, shape (D,)
        1 for each direction, 0 for inputs that cannot move.
    single : bool
        Whether the input's norm is Euclidean.
    first : Cases
        The whole domain, once for each target.
    domain : Domain
    upper : float
    uppers : ndarray, shape (T,)
        The upper end of each target; all are `upper`, unless the claim is about values.
    between : Between or None
        The shell on which points have to be.
    """

    chain: Chain
    breaks: list[tuple[int, float]]
    twins: list[list[Twin]]
    functionals: Array | None
    moving: Array
    single: bool
    first: Cases
    domain: Domain
    upper: float
    uppers: Array
    between: Between | None = None

    @classmethod
    def of(cls, statement: Statement) -> Question:
        """Make the question from a statement.

        Raises
        ------
        ProofError
            If there is no proof of this kind for it.
        """
        domain = statement.domain
        if not domain.is_bounded:
            raise ProofError("the domain has no finite box")
        single, vertices = statement.input_norm == "l2", statement.vertices
        euclidean = single or vertices is None
        largest = max(map(abs, [*domain.box.lower, *domain.box.upper]))
        levels, head = levels_of(statement)
        offset = np.array(statement.layers[-1].offset) if statement.values else None
        euclidean = euclidean and not statement.values
        two_lines = statement.edition is not Edition.SMOOTH
        chain = Chain(levels, head, largest, domain, euclidean, offset, two_lines)
        functionals = None if vertices is None else np.array(vertices, dtype=np.float64)
        moving, first = first_cases(statement, len(chain.broken))
        breaks = [
            (n, b)
            for n, (i, k) in enumerate(chain.broken)
            for group in chain.levels[i].groups
            if k in group.units
            for b in group.kind.breaks
        ]
        twins = twins_of(chain, breaks)
        between = None
        if statement.shell is not None:
            between = Between.of(statement.shell, largest)
        uppers = np.full(1 if vertices is None else len(vertices), statement.upper)
        if statement.ends is not None:
            uppers = np.array([upper for _, upper in statement.ends])
        rest = domain, statement.upper, uppers, between
        return cls(chain, breaks, twins, functionals, moving, single, first, *rest)

    @property
    def axes(self) -> int:
        """Ways to split a case."""
        return self.sides + len(self.breaks)

    @property
    def sides(self) -> int:
        """How many inputs and directions there are."""
        boxes = self.first.boxes
        return int(boxes.low.shape[1] + boxes.v_low.shape[1])

    def walk(self, decide: Decide) -> Iterator[int]:
        """Go through the tree, whose cases `decide` splits; yield the number of finished ones.

        Raises
        ------
        ProofError
            If a case ends that is not shown to be at most `upper`, or a cut takes more than that.
        """
        stack = [self.first]
        while stack:
            last, stack = last_of(stack, self.chain.most)
            taken = self.bounded(joined(last))
            codes, cuts = decide(taken)
            if not taken.may_end[codes == 0].all():
                raise ProofError("a case ends whose bound is larger than the upper end")
            split = codes > 0
            rest = Cases(self._cut(taken, split, cuts), taken.cases.target[split])
            stack += halves(rest, codes[split].astype(np.int64) - 1, self.breaks, self.twins)
            yield len(codes)

    def bounded(self, cases: Cases) -> Taken:
        """Return cases with their bounds, and with what these may be."""
        chain, boxes, frame = self.chain, cases.boxes, None
        functionals = None if self.functionals is None else self.functionals[cases.target]
        if chain.offset is not None:
            assert functionals is not None
            still = np.zeros(boxes.low.shape)  # values have no directions
            boxes = boxes._replace(v_low=still, v_high=still)
        elif chain.euclidean or functionals is None:
            functionals, boxes, frame = framed(chain, functionals, boxes, self.moving, self.single)
        outside = are_outside(self.domain, cases.boxes.low, cases.boxes.high)
        spaces: list[HalfSpaces] = []
        if self.between is not None:
            bounds = self.between.bounds(cases.boxes)
            spaces, off = self.between.spaces(cases.boxes, bounds)
            outside = outside | off
        bounded = chain.bound(functionals, boxes, spaces)
        count = len(cases.target)
        most = self.uppers[cases.target]
        allowed = Goals(most, np.zeros((count, self.sides)), np.zeros(count))
        if frame is not None:
            found = across(chain, functionals, boxes, frame, bounded, self.moving)
            allowed = goals(found, self.upper, chain.gamma)
        may_end = (bounded.upper <= allowed.most) | outside
        return Taken(cases, functionals, boxes, frame, bounded, allowed, may_end)

    def _cut(self, taken: Taken, split: npt.NDArray[np.bool_], cuts: Bytes) -> Boxes:
        """Return boxes without what is cut off, once that is shown to be at most the goals.

        Where x_j is ``t`` away from the end where the affine function is larger, the function is at
        most ``bound - |c_j| t``.
        """
        boxes = taken.cases.boxes.part(split)
        low, high, v_low, v_high, *_ = boxes
        d, bounded, most = low.shape[1], taken.bounded, taken.goals.most[split, None]
        bound, x, v = bounded.upper[split], bounded.x[split], bounded.v[split, : v_low.shape[1]]
        width = high - low
        away = width * (cuts[:, :d] / SHARES)
        up = x > 0
        new_low = np.where(up, np.minimum(low + away, high), low)
        new_high = np.where(up, high, np.maximum(high - away, low))
        kept = np.where(up, high - new_low, new_high - low)
        with np.errstate(invalid="ignore"):  # an infinite bound allows no cut
            left = bound[:, None] - np.abs(x) * kept * (1.0 - 4.0 * ULP)
            gone = bound[:, None] - np.abs(v) * (v_high - v_low) * (1.0 - 4.0 * ULP)
            room = 4.0 * ULP * (np.abs(bound[:, None]) + np.abs(most))
            small, one_small = left + room <= most, gone + room <= most
        one_side = (new_low > low) | (new_high < high)
        one_sign = (cuts[:, d:] > 0) & (v_low < v_high)
        fine = bool((small | ~one_side).all() and (one_small | ~one_sign).all())
        if not fine:
            raise ProofError("a cut takes more than its bound allows")
        v_new_low = np.where(one_sign & (v > 0), v_high, v_low)
        v_new_high = np.where(one_sign & ~(v > 0), v_low, v_high)
        v_ends = {"v_low": v_new_low, "v_high": v_new_high}
        return boxes._replace(
            low=new_low, high=new_high, **v_ends, rise=x, least=taken.least[split]
        )
