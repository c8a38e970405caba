"""Search for the ranges of all entries of a Jacobian together.

With few inputs, batches of boxes bound all entries (`lipyomo.analyses.maps.relu`).  The entries
left are searched as a Lipschitz constant, which is a largest absolute value of derivatives; a
linear term separates their signs (`entry_ends.py`).  One search for the largest derivative of the
tilted network, from l1 to linf, with cutoff C proves all ends together: its nodes
keep only entries that may still exceed their attained values.  If an entry does, its offset is
reduced, and the search starts again; bounds proved before remain valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lipyomo.analyses.maps.pieces import Excess
from lipyomo.analyses.maps.relu import bound_entries, divided
from lipyomo.analyses.maps.stages import EFFORT, LEAST
from lipyomo.analyses.questions.entry_ends import EntryEnds, Tilt, TiltedEntries
from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.kept import Arrays, Kept
from lipyomo.base.numerics.rounding import CLOSED, EXACT_TOLERANCE
from lipyomo.base.system.memory import ARRAYS, LARGE
from lipyomo.methods.bnb import search
from lipyomo.methods.registry import was_interrupted
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Progress
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings
from lipyomo.search.engine.checkpoint import SearchStates
from lipyomo.search.engine.engine import Engine
from lipyomo.search.engine.protocol import NODES
from lipyomo.search.kinds import kind_of
from lipyomo.search.objectives.params import PARAMS
from lipyomo.search.spaces.boxes.context import box_bytes
from lipyomo.search.spaces.boxes.entries import Entries, EntriesQuestion
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline

KNOWN, SEARCH = "known", "search"
"""Names of the two parts of a checkpoint: known ends of all entries, and the current search."""


class EntrySearch:
    """Searches for the ranges of the entries in some rows.

    Parameters
    ----------
    problem : LipschitzProblem
    steps : Matrix, shape (d, k)
        The directions of its columns; each moves one input, different ones for all.
    rows : ndarray, shape (p, m)
        Functionals.
    settings : Settings
    clock : Clock
    kept : Kept, optional
        Stores the state, from which the search resumes.

    Attributes
    ----------
    ends : EntryEnds
    nodes : int
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        steps: Matrix,
        rows: FloatArray,
        settings: Settings,
        clock: Clock,
        kept: Kept | None = None,
    ) -> None:
        self.nodes, self._states = 0, SearchStates(kept)
        self._unfinished: Arrays | None = None
        self._problem, self._rows, self._clock, self._settings = problem, rows, clock, settings
        self._tilted = TiltedEntries.along(problem, steps, rows)
        self.ends = EntryEnds.crude(problem, rows)

    def run(self) -> None:
        """Search until all ends are known, the time is up, or Ctrl-C stops the clock."""
        rng = np.random.default_rng(self._settings.seed)
        before = self._before()
        domain, way = self._problem.domain, _way_of(self._problem.reduced.problem)
        boxed = way == "search"
        for x in [domain.center, *domain.sample(rng, PARAMS.starts)]:
            if self._clock.expired or (boxed and self.ends.all_attained):
                break
            self._sample(x)
        boxed &= self.ends.all_attained
        self._report(float((self.ends.proved - self.ends.attained).max()))
        try:
            if boxed if before is None else "tolerance" in before:
                self._search_boxes(self.ends.tolerance if before is None else before["tolerance"])
                return
            if before is None and way == "batches":
                self._bound_in_boxes()
            self._search(rng, None if before is None else Tilt.decode(before))
        except ProblemError:  # linear terms as large as the slopes overflow
            return
        except KeyboardInterrupt:
            self._clock.stop()

    def ranges(self) -> list[tuple[Range, ...]]:
        """Return the ranges of all entries as far as known."""
        return self.ends.ranges(self._clock, self.nodes)

    def _sample(self, x: FloatArray) -> bool | None:
        """Enter the values attained at a point; return None if the point does not count.

        Otherwise return whether some end improved by a relevant part of its tolerance.
        """
        before, found = self.ends, self.ends.at(x)
        if found is None:
            return None
        self.ends = found
        return found.gained(before)

    def _bound_in_boxes(self) -> None:
        """Bound all entries by batches of boxes, as far as this pays."""
        small = self._problem.reduced
        domain = small.problem.domain
        if self.ends.done or not self.ends.all_attained:
            return
        low, high = divided(domain.lower, domain.upper, LEAST)

        def sample(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            for x in points:
                self._sample(small.lift_point(x))
            return self.ends.attained, self.ends.tolerance

        known = self.ends.attained, self.ends.tolerance
        excess = Excess(small.problem, self._rows, *known, CLOSED / EXACT_TOLERANCE)
        above, boxes = bound_entries(excess, low, high, self._clock, sample, EFFORT)
        self.nodes += boxes
        self.ends = self.ends.within(above, self.ends.tolerance)

    def _search_boxes(self, tolerance: FloatArray) -> None:
        """Search all entries over boxes, with tolerances (p, k)."""
        small, enough = self._problem.reduced, CLOSED / EXACT_TOLERANCE
        question = EntriesQuestion(small.problem, self._rows, tolerance, enough)

        def sample(x: FloatArray) -> FloatArray | None:
            return None if self._sample(small.lift_point(x)) is None else self.ends.attained

        def on_progress(point: object, excess: float, nodes: int, message: str) -> None:
            self._report(max(excess, 0.0) * float(tolerance.max()), nodes, message)

        entries = Entries(question, self.ends.attained, sample)
        pipeline = BoxPipeline(entries, self._settings.seed)
        kept = self._kept({"tolerance": tolerance})
        workers = self._settings.workers_within(self._clock)
        engine = Engine(
            pipeline, self._clock, workers=workers, checkpoint=kept, on_progress=on_progress
        )
        found = engine.run()
        self.nodes += found.counters.get(NODES, 0)
        self.ends = self.ends.within(found.upper, tolerance)

    def _search(self, rng: np.random.Generator, before: Tilt | None) -> None:
        """Alternate local searches for all entries together with branch and bound.

        A search from a checkpoint is completed first.
        """
        if before is not None and not self._round(before):
            return
        while not (self.ends.done or self._clock.expired):
            joint = self._tilted.joint(self._tilted.tilt(self.ends))
            found = kind_of(joint.network).short_incumbent(joint, rng, self._clock)
            better = found is not None and bool(self._sample(found.point))
            if not (better or self.ends.done or self._round(self._tilted.tilt(self.ends))):
                return

    def _round(self, tilt: Tilt) -> bool:
        """Run one search; return whether another one should follow."""
        C, slack = tilt.cutoff, tilt.slack
        best, found_at, nodes = C * (1.0 + slack), 0, 0

        def on_progress(progress: Progress) -> None:
            nonlocal best, found_at, nodes
            nodes = progress.nodes
            if progress.lower > best:
                best, found_at = progress.lower, nodes
            self._report(max(progress.upper - C, 0.0), progress.nodes, progress.message)

        def enough() -> bool:
            """Return whether a better point was found, and none within as many nodes again.

            Near a kink, points keep improving.
            """
            return clock.interrupted or (best > C * (1.0 + slack) and nodes >= 2 * found_at)

        clock = self._clock
        settings = replace(
            self._settings,
            time_limit=max(clock.left, 1e-3),
            should_stop=enough,
            progress=on_progress,
            started=None,
        )
        run = Run(self._tilted.joint(tilt), settings)
        found = search(run, C * (1.0 + slack), self._kept(tilt.encode()), slack)
        if was_interrupted(found) and (found.stopped or not enough()):
            clock.stop()
        self.nodes += found.nodes or 0
        self.ends = self.ends.below(found.upper, tilt.offsets, self._tilted.reach)
        if found.witness is None:
            return False
        return bool(self._sample(found.witness.point)) or best > C * (1.0 + slack)

    def _before(self) -> Arrays | None:
        """Restore the ends from a checkpoint, and return its state; None if there is none.

        Its bounds are relative to the values attained then: if these are not reached again, the
        bounds are not used.
        """
        state = self._states.state(KNOWN)
        if state is None:
            return None
        for parts in state["points"]:
            self._sample(parts)
        if (self.ends.attained < state["attained"]).any():
            return None
        self._unfinished = self._states.state(SEARCH)
        proved = np.minimum(self.ends.proved, state["proved"])
        self.ends, self.nodes = replace(self.ends, proved=proved), int(state["nodes"])
        return state

    def _kept(self, asked: Arrays) -> Kept | None:
        """Return the place for a search's state, stored with its question and all known ends."""
        part, state = self._states.part(SEARCH), self._unfinished
        self._unfinished = None  # later searches have other questions
        return None if part is None else _Beside(part, state, lambda new: self._keep(asked, new))

    def _keep(self, asked: Arrays, state: Arrays) -> None:
        known = self.ends.encode() | {"nodes": np.array(self.nodes)}
        self._states.save({KNOWN: known | asked, SEARCH: state})

    def _report(self, gap: float, nodes: int = 0, message: str = "") -> None:
        """Report the largest attained size, and this plus the widest gap as upper end."""
        if self._settings.progress is not None:
            attained = self.ends.attained
            size = float(np.abs(attained[np.isfinite(attained)]).max(initial=0.0))
            total, seconds = self.nodes + nodes, self._clock.seconds
            self._settings.progress(Progress(seconds, size, size + gap, total, message))


def _way_of(problem: LipschitzProblem) -> Literal["search", "batches", "tilts"]:
    """Choose the way of searching: over boxes or in batches for few inputs, else by tilts alone."""
    domain, inputs = problem.domain, problem.network.input_dim
    if problem.network.smooth:
        few = inputs < Params().wide and ARRAYS * box_bytes(problem) <= LARGE
        return "search" if few and domain.is_bounded else "tilts"
    few = inputs <= PARAMS.cell_inputs
    return "batches" if few and domain.is_box and domain.is_bounded else "tilts"


@dataclass(frozen=True, eq=False)
class _Beside:
    """The place for a search's state, which is written together with other data."""

    part: Kept
    state: Arrays | None
    save: Callable[[Arrays], None]

    @property
    def trouble(self) -> str | None:
        return self.part.trouble
