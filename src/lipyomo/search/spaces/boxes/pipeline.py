"""The pipeline of smooth and mixed networks: what the engine asks, answered by the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, keep_memory
from lipyomo.base.clock import Clock
from lipyomo.primal.regions.witness import make_witness
from lipyomo.search.engine.protocol import Incumbent, Outcome, Recipe, Root, Tell
from lipyomo.search.spaces.boxes.ascent import ascended
from lipyomo.search.spaces.boxes.bound import Bounded, bounded, least_bound
from lipyomo.search.spaces.boxes.boxes import Boxes, bundles, joined
from lipyomo.search.spaces.boxes.bundled import BundlePipeline, Task
from lipyomo.search.spaces.boxes.chords import with_chords
from lipyomo.search.spaces.boxes.context import Context, Question
from lipyomo.search.spaces.boxes.ranges import (
    global_slopes,
    semidefinite_bounds,
    semidefinite_root,
    slopes_on,
)
from lipyomo.search.spaces.boxes.relax import relaxed
from lipyomo.search.spaces.boxes.values import slopes_at


class Pipeline(BundlePipeline):
    """Searches one problem.

    Parameters
    ----------
    question : Question
    seed : int, optional
    """

    def __init__(self, question: Question, seed: int = 0) -> None:
        keep_memory()
        super().__init__(Context.of(question, featured=True))
        featured = self._context.features is not None
        self._plain = Context.of(question) if featured else self._context
        self._rng = np.random.default_rng(seed)

    def recipe(self) -> Recipe[Boxes, Task]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(Pipeline, self._context.question)

    def _met(self, value: float) -> float:
        return self._context.cutoff(value)

    def _bounds_of(self, boxes: Boxes, cutoff: float) -> Bounded:
        return bounded(self._context, boxes, cutoff)

    def _values(self, points: FloatArray) -> FloatArray:
        return slopes_at(self._context, points).values

    # -- the search --------------------------------------------------------------------------------

    def root(self, clock: Clock, tell: Tell) -> Root[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context = self._context
        first = clock.part()
        points = self._plain.domain.sample(self._rng, context.samples)
        self._look(points if context.features is None else context.features.of(points), first)
        tell(best=self._best)
        if not context.domain.is_bounded:
            bounds = semidefinite_bounds(
                context, global_slopes(context), clock, report=lambda upper: tell(upper=upper)
            )
            return Root(Outcome(closed=max(0.0, float(bounds.max())), best=self._best))
        whole = self._bounded(Boxes.whole(context), clock)
        tell(upper=max(whole.bound, 0.0))
        cutoff = self.cutoff(self._best.value)
        if whole.bound > cutoff:  # deep networks of few inputs need it as much as wide ones
            whole = self._lowered(whole, clock.part(), tell)
        keep = whole.bounds > cutoff
        closed = max(0.0, float(whole.bounds[~keep].max(initial=0.0)))
        nodes = bundles(whole.take(keep), context.bundle)
        return Root(Outcome(nodes, closed=closed, best=self._best))

    def _bounded(self, whole: Boxes, clock: Clock) -> Boxes:
        """The root's boxes with bounds; twice, since the first look decides signs.

        What there is no time for keeps its infinite bound.
        """
        context, found = self._context, []
        decides = 8 * context.inputs**2 <= context.params.bundle_bytes
        for at in range(0, len(whole), context.chunk):
            part = whole.take(slice(at, at + context.chunk))
            if at == 0 or not clock.expired:
                part = bounded(context, part, -math.inf, decide=decides).boxes
            if not clock.expired:
                part = bounded(context, part, -math.inf).boxes
            found.append(part)
        return joined(found)

    def _lowered(self, whole: Boxes, clock: Clock, tell: Tell) -> Boxes:
        """The root's boxes with semidefinite bounds, and by chords, where these are less.

        Semidefinite bounds begin: on wide domains their first steps, of a hundredth of a second,
        are below what chords end with after many.
        """
        context, targets = self._context, self._context.targets
        first, cutoff = whole.take(slice(0, 1)), self.cutoff(self._best.value)
        layers = relaxed(context, first, (first.v_low, first.v_high)).layers

        def report(upper: float) -> None:
            tell(upper=max(upper, 0.0))

        def together(boxes: Boxes) -> FloatArray:  # a target may have several boxes
            return np.asarray(boxes.bounds.reshape(-1, targets.count).max(axis=0))

        def lowest(boxes: Boxes, bounds: FloatArray) -> Boxes:
            known = boxes.bounds.reshape(-1, targets.count)
            return replace(boxes, bounds=np.minimum(known, bounds).reshape(-1))

        root = semidefinite_root(self._plain, slopes_on(layers), together(whole))
        on_cube = targets.input_norm == "linf" and not context.euclidean
        if self._plain.inputs >= context.params.wide and on_cube:
            within = clock.part()
            root = root.begun(cutoff, within, report)
            whole = with_chords(context, lowest(whole, root.upper), within, cutoff)
            root = root.with_known(together(whole))
            report(root.value)
        return lowest(whole, root.run(cutoff, clock, report).upper)

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        The worst box is looked at more closely: where it cannot be closed, the upper end will not
        be below that, and nothing else has to be.
        """
        cutoff = self.cutoff(self._best.value)
        worst = max(nodes, key=lambda node: node.bound)
        first = worst.take(np.array([worst.bounds.argmax()]))
        self._floor = max(self._floor, least_bound(self._context, first, cutoff))
        return super().plan(nodes, travels)

    # -- points ------------------------------------------------------------------------------------

    def _ascend_from(self, boxes: Boxes, clock: Clock) -> None:
        self._look(boxes.middle, clock)

    def _look(self, points: FloatArray, clock: Clock) -> None:
        """Ascend from the best of some points, and take what is found."""
        context = self._context
        values = self._values(points)
        starts = points[np.argsort(-values)[: context.params.starts]]
        found, values = ascended(context, starts, clock)
        if context.features is not None:
            best = self._near(found[np.argsort(-values)[: context.params.tries]])
            found, values = ascended(self._plain, best, clock)
        for k in np.argsort(-values)[: context.params.tries].tolist():
            if not values[k] > self._best.value or self._challenge(found[k]):
                break

    def _given(self, point: FloatArray) -> FloatArray:
        return point if self._context.features is None else self._near(point[None])[0]

    def _near(self, features: FloatArray) -> FloatArray:
        """Points (N, d) of the domain for features (N, r)."""
        assert self._context.features is not None
        return self._plain.domain.drawn_in(self._context.features.near(features))

    def _challenge(self, x: FloatArray) -> bool:
        """Whether the norm that is proved to be attained at `x` is the best so far."""
        problem = self._context.question.problem
        if not problem.network.smooth or problem.domain.is_box:
            near = [x]
        else:  # faces are not made of float64 points
            near = problem.domain.pulled_in(x)
        for y in near:
            found = make_witness(problem, y)
            if found is not None:
                if found.value <= self._best.value:
                    return False
                self._best = Incumbent(found.value, y)
                return True
        return False
