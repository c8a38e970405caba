"""The norm of the Jacobian as an objective: Lipschitz constants of smooth and mixed networks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import UNDERFLOW
from lipyomo.primal.regions.witness import make_witness
from lipyomo.search.engine.protocol import Incumbent, OnRootProgress
from lipyomo.search.spaces.boxes.ascent import ascended
from lipyomo.search.spaces.boxes.bound import Bounded, bounded, least_bound
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import slopes_at
from lipyomo.search.spaces.boxes.wide.chords import with_chords
from lipyomo.search.spaces.bundle import joined

FEW = 8
"""Number of points whose evaluation tells for how many there is time."""


class Norm(Objective):
    """The Jacobian's norm.

    Parameters
    ----------
    question : BoxQuestion
    """

    question: BoxQuestion
    least = 0.0

    def __init__(self, question: BoxQuestion) -> None:
        super().__init__(question, BoxContext.of(question, featured=True))
        featured = self.context.features is not None
        self._plain = BoxContext.of(question) if featured else self.context
        native = self.context.structure.multiplies
        self._squares = BoxContext.of(question, native=False) if native else self._plain

    def far(self, cutoff: float) -> float:
        """See `Objective`; finite for networks with products only."""
        return (
            (1.0 + self.context.params.far) * cutoff
            if self.context.structure.multiplies
            else math.inf
        )

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`."""
        return bounded(self.context, boxes, cutoff)

    def values(self, points: FloatArray) -> FloatArray:
        """See `Objective`."""
        return slopes_at(self.context, points).values

    # -- the root ----------------------------------------------------------------------------------

    def root(
        self, best: Incumbent, clock: Clock, on_progress: OnRootProgress
    ) -> tuple[Boxes, float]:
        """See `Objective`."""
        context = self.context
        if not context.domain.is_bounded:
            from lipyomo.search.spaces.boxes.wide.ranges import global_slopes, semidefinite_root

            found = semidefinite_root(self._squares, global_slopes(context))
            found = found.run(clock=clock, report=lambda upper: on_progress(upper=upper))
            return self.whole().take(slice(0, 0)), max(0.0, float(found.upper.max()))
        whole, cutoff = self._bounded(self.whole(), clock), self.cutoff(best.value)
        on_progress(upper=max(whole.bound, 0.0))
        if whole.bound > cutoff and not clock.expired:
            # deep networks of few inputs need it as much as wide ones
            whole = self._lowered(whole, cutoff, clock, on_progress)
        return whole, 0.0

    def _bounded(self, whole: Boxes, clock: Clock) -> Boxes:
        """Bound the root's boxes, twice, since the first time decides signs.

        Boxes for which there is no time keep their infinite bounds; the cascade's bound holds then.
        """
        context, found = self.context, []
        decides = 8 * context.inputs**2 <= context.params.bundle_bytes
        for at in range(0, len(whole), context.batches.chunk):
            part = whole.take(slice(at, at + context.batches.chunk))
            if not clock.expired:
                part = bounded(context, part, -math.inf, decide=decides).boxes
            if not clock.expired:
                part = bounded(context, part, -math.inf).boxes
            found.append(part)
        return joined(found)

    def _lowered(
        self, whole: Boxes, cutoff: float, clock: Clock, on_progress: OnRootProgress
    ) -> Boxes:
        """Improve bounds of the root's boxes by semidefinite bounds and by chords.

        Half of the time is left to the search, except with many inputs, where it gains nothing.
        Semidefinite bounds come first: on wide domains their first steps, of a hundredth of a
        second, are below what chords reach after many.
        """
        context, targets = self.context, self.context.targets
        on_cube = targets.norm == "linf" and not context.targets.euclidean
        wide = on_cube and self._plain.inputs >= context.params.wide
        if (
            on_cube and context.structure.multiplies
        ):  # semidefinite bounds would gain nothing, and take longer
            within = clock.part()
            if wide:
                whole = self._bounded(with_chords(context, whole, within, cutoff), within)
            return whole
        # imports thirty modules that networks with products on cubes do not need
        from lipyomo.search.spaces.boxes.wide.ranges import semidefinite_root, slopes_on

        late, clock = clock, clock.part()
        first = whole.take(slice(0, 1))
        if context.structure.multiplies:  # semidefinite bounds have no products
            first = Boxes.whole(self._squares).take(slice(0, 1))
        units = self._squares if context.structure.multiplies else context
        layers = relaxed(units, first, (first.v_low, first.v_high)).layers

        def report(upper: float) -> None:
            on_progress(upper=max(upper, 0.0))

        def together(boxes: Boxes) -> FloatArray:  # a target may have several boxes
            return np.asarray(boxes.bounds.reshape(-1, targets.count).max(axis=0))

        def lowest(boxes: Boxes, bounds: FloatArray) -> Boxes:
            known = boxes.bounds.reshape(-1, targets.count)
            return replace(boxes, bounds=np.minimum(known, bounds).reshape(-1))

        root = semidefinite_root(self._squares, slopes_on(layers), together(whole))
        if wide:
            within = clock.part()
            root = root.begun(cutoff, within, report)
            whole = with_chords(context, lowest(whole, root.upper), within, cutoff)
            root = root.with_known(together(whole))
            report(root.value)
        whole = lowest(whole, root.run(cutoff, clock, report).upper)
        if context.inputs >= context.params.vast and on_cube:
            # it imports SciPy's optimisers, which takes 0.2 to 0.4 s
            from lipyomo.search.spaces.boxes.wide.coupled import coupled_bounds

            found = coupled_bounds(context, layers, together(whole), cutoff, late, report)
            whole = lowest(whole, found)
        return whole

    def floor(self, box: Boxes, cutoff: float) -> float:
        """See `Objective`."""
        context, domain = self.context, self.context.domain
        if context.structure.multiplies:
            wide = box.high - box.low > context.params.rounded * (domain.upper - domain.lower)
            if wide.any():
                return 0.0
        return least_bound(context, box, cutoff)

    # -- points ------------------------------------------------------------------------------------

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `Objective`."""
        context, within = self.context, clock.part()
        points = self._plain.domain.sample(rng, context.batches.samples)
        if context.features is not None:
            points = context.features.of(points)
        return self._ascended(Incumbent(), points, within)

    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """See `Objective`."""
        return self._ascended(best, boxes.middle, clock)

    def _ascended(self, best: Incumbent, points: FloatArray, clock: Clock) -> Incumbent:
        """Ascend from the best of some points, and return the new incumbent."""
        context, points = self.context, self._affordable(points, clock)
        values = self.values(points)
        starts = points[np.argsort(-values)[: context.params.starts]]
        worth = self.cutoff(best.value)
        found, values = ascended(context, starts, clock, worth)
        if context.features is not None:
            ends = self._near(found[np.argsort(-values)[: context.params.tries]])
            found, values = ascended(self._plain, ends, clock, worth)
        for k in np.argsort(-values)[: context.params.tries].tolist():
            if not values[k] > best.value:
                break
            after = self.challenged(best, found[k])
            if after is not best:
                return after
        return best

    def _affordable(self, points: FloatArray, clock: Clock) -> FloatArray:
        """Return the first of some points, as many as can be evaluated in the time left."""
        if math.isinf(clock.left):
            return points
        began = clock.seconds
        self.values(points[:FEW])
        fit = clock.left * FEW / max(clock.seconds - began, UNDERFLOW)
        return points[: max(1, int(min(fit, len(points))))]

    def given(self, point: FloatArray) -> FloatArray:
        """See `Objective`."""
        return point if self.context.features is None else self._near(point[None])[0]

    def _near(self, features: FloatArray) -> FloatArray:
        """Return points (N, d) of the domain near features (N, r)."""
        assert self.context.features is not None
        return self._plain.domain.drawn_in(self.context.features.near(features))

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `Objective`."""
        problem = self.context.question.problem
        near = [point]
        if not problem.domain.is_box:
            near = problem.domain.pulled_in(point)  # points on faces need not be float64 numbers
        for y in near:
            found = make_witness(problem, y)
            if found is not None:
                return Incumbent(found.value, y) if found.value > best.value else best
        return best
