"""The search of a Jacobian's entries, all of them at once, and from both sides.

With few inputs, batches of boxes bound all entries (`lipyomo.analyses.maps.entries`).  What they
leave is searched: a constant is the largest absolute value of derivatives, and their signs are told
by a linear term.  The network ``h(x) = +-f(x) + M S x`` has the derivatives ``+-J_ij + M_ij``, and
if M_ij is C less the largest ``+-J_ij`` that is known to be attained, all of them are at most C, as
far as is known.  A search of the largest derivative of h, from l1 to linf, with the cutoff C then
proves all ends at once: nodes keep only the entries that may still exceed what is attained of them.
Where one does, its M_ij becomes less, and the search begins anew; what was proved before stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.analyses.maps.entries import EntryPieces, KnownEntries, bound_entries
from lipyomo.analyses.maps.params import PARAMS as MAPS
from lipyomo.analyses.maps.relu import divided
from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.kept import Arrays, Kept
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.rounding import CLOSED, EQUAL, EXACT_TOLERANCE, gamma
from lipyomo.base.system.memory import ARRAYS, LARGE
from lipyomo.methods.bnb import search
from lipyomo.methods.registry import was_interrupted
from lipyomo.networks.combined import affine_after, parallel
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.regions.value import around, derivatives_at
from lipyomo.problems.norms import LinfOutput
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, tolerance_of
from lipyomo.problems.reductions.direct import product_rounding
from lipyomo.problems.result import Point, Progress, Status
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.gradient import gradient_ranges
from lipyomo.relaxations.linear.layers import with_slopes
from lipyomo.search.engine.checkpoint import SearchStates
from lipyomo.search.engine.engine import Engine
from lipyomo.search.engine.protocol import NODES
from lipyomo.search.kinds import kind_of
from lipyomo.search.objectives.params import PARAMS
from lipyomo.search.spaces.boxes.context import box_bytes
from lipyomo.search.spaces.boxes.entries import Entries, EntriesQuestion
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.pipeline import Pipeline as BoxPipeline

KNOWN, SEARCH = "known", "search"
"""What is known of all entries, and the search that goes on, in a checkpoint."""

End: TypeAlias = tuple[int, ...]
"""A negative (0) or an entry (1), its row, and its column."""


def tilted(network: Network, rows: FloatArray, skip: FloatArray, scale: FloatArray) -> Network:
    """``rows . f(x) + scale . skip . x``, without rounding: x goes through beside the units.

    Parameters
    ----------
    network : Network
    rows : ndarray, shape (p, m)
    skip : ndarray, shape (k, d)
        With at most one entry a row, of size one.
    scale : ndarray, shape (p, k)
    """
    beside = Network([Layer(skip, np.zeros(len(skip)))])
    return affine_after(parallel(network, beside), np.hstack([rows, scale]))


def _single_inputs(steps: Matrix) -> tuple[FloatArray, FloatArray]:
    """The input that each direction moves, as rows (k, d) with one entry of size one; how far (k,).

    Of a single direction that moves several, the one that it moves farthest.

    Raises
    ------
    ProblemError
        If there are several directions, and they move no single inputs, or two the same.
    """
    T = sp.csc_array(steps)
    d, k = T.shape
    skip, reach, places = np.zeros((k, d)), np.zeros(k), set()
    for j in range(k):
        own = slice(T.indptr[j], T.indptr[j + 1])
        largest = np.abs(T.data[own]).argmax()
        place, entry = int(T.indices[own][largest]), float(T.data[own][largest])
        skip[j, place], reach[j] = np.sign(entry), abs(entry)
        places.add(place)
    if k > 1 and not ((np.diff(T.indptr) == 1).all() and len(places) == k):
        raise ProblemError(
            "entries of a Jacobian are told apart along single inputs.  Remedy: ask for one "
            "direction at a time, with derivative_range"
        )
    return skip, reach


class EntrySearch:
    """The search of some rows' ranges: what is proved and attained of each entry.

    Parameters
    ----------
    problem : LipschitzProblem
    steps : Matrix, shape (d, k)
        The directions of its columns; each moves one input, and no two the same.
    rows : ndarray, shape (p, m)
        Functionals.
    settings : Settings
    clock : Clock
    kept : Kept, optional
        Where to keep the state, and from where to go on.

    Attributes
    ----------
    proved, attained : ndarray, shape (2, p, k)
        Upper ends, and attained values, of the entries' negatives and of the entries.
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
        self._skip, self._reach = _single_inputs(steps)
        self.proved, self._lost = self._crude()
        self.attained = np.full(self.proved.shape, -np.inf)
        self._points: list[list[list[Point | None]]] = [
            [[None] * steps.shape[1] for _ in rows] for _ in range(2)
        ]

    def run(self) -> None:
        """Search until all ends are known, or time is over, or Ctrl-C stops the clock."""
        rng = np.random.default_rng(self._settings.seed)
        before = self._before()
        domain, boxed = self._problem.domain, self._boxed
        for x in [domain.center, *domain.sample(rng, PARAMS.starts)]:
            if self._clock.expired or (boxed and np.isfinite(self.attained).all()):
                break
            self._look(x)
        boxed &= bool(np.isfinite(self.attained).all())
        self._tell(float((self.proved - self.attained).max()))
        try:
            if boxed if before is None else "tolerance" in before:
                self._search_boxes(self._tolerance if before is None else before["tolerance"])
                return
            if before is None:
                self._bound_in_boxes()
            self._search(rng, None if before is None else _Tilt.decode(before))
        except ProblemError:  # terms as large as the slopes leave the range of float64 numbers
            return
        except KeyboardInterrupt:
            self._clock.stop()

    def _bound_in_boxes(self) -> None:
        """Bound all entries in batches of boxes, as far as that leads."""
        problem, small = self._problem, self._problem.reduced
        domain = small.problem.domain
        able = domain.is_box and domain.is_bounded and domain.dimension <= PARAMS.cell_inputs
        if self._done or problem.network.smooth or not able or not np.isfinite(self.attained).all():
            return
        low, high = divided(domain.lower, domain.upper, MAPS.least)

        def look(points: FloatArray) -> KnownEntries:
            for x in points:
                self._look(small.lift_point(x))
            return self._known

        pieces = EntryPieces(
            small.problem, rows=self._rows, known=self._known, enough=CLOSED / EXACT_TOLERANCE
        )
        excess, boxes = bound_entries(pieces, low, high, self._clock, look)
        self.nodes += boxes
        self._take(excess, self._tolerance)

    @property
    def _boxed(self) -> bool:
        """Whether boxes of inputs are split: of smooth and mixed networks with few of them."""
        small = self._problem.reduced.problem
        fits = ARRAYS * box_bytes(small) <= LARGE
        few = small.network.input_dim < Params().wide
        return small.network.smooth and small.domain.is_bounded and few and fits

    def _search_boxes(self, tolerance: FloatArray) -> None:
        """One search of all entries, with tolerances (p, k)."""
        small, enough = self._problem.reduced, CLOSED / EXACT_TOLERANCE
        question = EntriesQuestion(small.problem, self._rows, tolerance, enough)

        def look(x: FloatArray) -> FloatArray | None:
            return self.attained if self._look(small.lift_point(x)) is not None else None

        def hear(point: object, excess: float, nodes: int, message: str) -> None:
            self._tell(max(excess, 0.0) * float(tolerance.max()), nodes, message)

        entries = Entries(question, self.attained, look)
        pipeline = BoxPipeline(entries, self._settings.seed)
        kept = self._kept({"tolerance": tolerance})
        helpers = self._settings.helpers(self._clock)
        engine = Engine(pipeline, self._clock, workers=helpers, checkpoint=kept, on_progress=hear)
        found = engine.run()
        self.nodes += found.counters.get(NODES, 0)
        self._take(found.upper, tolerance)

    def _take(self, excess: float, tolerance: FloatArray) -> None:
        """Take that no entry exceeds by more tolerances what is attained of it."""
        room = excess * tolerance + self._lost
        above = self.attained + room
        above += gamma(4) * (np.abs(self.attained) + np.abs(room))
        self.proved = np.minimum(self.proved, above)

    @property
    def _known(self) -> KnownEntries:
        return KnownEntries(self.attained, self._tolerance)

    def _search(self, rng: np.random.Generator, before: _Tilt | None) -> None:
        """Local searches of all entries together, and branch and bound.

        An end that branch and bound has bettered gets a local search of its own next.  A search
        that has been begun before comes first.
        """
        missed: list[End] = []
        if before is not None and not self._round(before):
            return
        while not (self._done or self._clock.expired):
            found = self._local(rng)
            while missed and not (found or self._clock.expired):
                end = missed.pop()
                found = bool(self._open[end]) and self._local(rng, end)
            if not found:
                attained = self.attained
                if not self._round(self._tilt()):
                    return
                missed = list(zip(*np.nonzero(self.attained > attained), strict=True))

    def ranges(self) -> list[tuple[Range, ...]]:
        """What is known of all entries."""
        seconds = self._clock.seconds
        found = []
        for i in range(len(self._rows)):
            row = []
            for j in range(len(self._skip)):
                above, least = self.proved[:, i, j].tolist(), self.attained[:, i, j].tolist()
                low = (-above[0] + 0.0, -least[0] + 0.0)  # no negative zeros
                high = (least[1] + 0.0, above[1] + 0.0)
                points = self._points[0][i][j], self._points[1][i][j]
                entry = Range(low, high, points, Status.EXACT, seconds, self.nodes)
                row.append(entry.ended(self._clock))
            found.append(tuple(row))
        return found

    # -- parts -------------------------------------------------------------------------------------

    def _crude(self) -> tuple[FloatArray, float]:
        """Ends (2, p, k) that follow from bounds of all units, and what rounding may take."""
        small = self._problem.reduced.problem
        known = preactivation_bounds(small.network, small.domain)
        network, rounding = with_slopes(small.network, known), 0.0
        if small.directions is not None:
            size = float(np.abs(self._rows).max(initial=0.0))
            rounding = size * product_rounding(network, small.directions, LinfOutput())
            network = network.with_directions(small.directions)
        low, high = gradient_ranges(network, known.phases, self._rows)
        lost = self._problem.underflow + rounding
        lost = lost * (1 + 1e-12) if lost else 0.0
        return np.stack([-low, high]) + lost, lost

    @property
    def _tolerance(self) -> FloatArray:
        """Width up to which each entry's ends count as exact, shape (p, k)."""
        low, high = self.attained
        return np.array(
            [
                [tolerance_of(a, b) for a, b in zip(*pair, strict=True)]
                for pair in zip(low, high, strict=True)
            ]
        )

    @property
    def _open(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.proved - self.attained > self._tolerance)

    @property
    def _done(self) -> bool:
        return not self._open.any()

    def _look(self, x: FloatArray) -> bool | None:
        """Take what is attained at a point; None if it does not count.

        True if some end is better than by its tolerance.
        """
        found = derivatives_at(self._problem, x, self._rows)
        if found is None:
            return None
        values = np.stack([-found[1], found[0]])
        better = values > self.attained
        gain = bool((values > self.attained + 0.1 * self._tolerance).any())
        for s, i, j in zip(*np.nonzero(better), strict=True):
            self._points[s][i][j] = Point.at(x)
        self.attained = np.where(better, values, self.attained)  # last: Ctrl-C may come between
        return gain

    def _offsets(self, only: End | None = None) -> tuple[float, FloatArray]:
        """C and M, shape (2, p, k), with ``attained + M reach = C``, but for rounding.

        Entries that are settled have no say, nor have the others of one that is asked for alone.
        """
        known = np.where(np.isfinite(self.attained), self.attained, -self.proved[::-1])
        widest = float((known.sum(axis=0) / 2.0).max())
        size = float(np.abs(known).max())
        C = max(1.01 * widest, 0.01 * size, 1e-200)
        middle = np.broadcast_to(known.sum(axis=0) / 2.0, known.shape)
        active = self._open
        if only is not None:
            active = np.zeros_like(active)
            active[only] = True
        return C, (np.where(active, C, middle) - known) / self._reach

    def _joint(self, M: FloatArray) -> LipschitzProblem:
        rows = np.concatenate([-self._rows, self._rows])
        network = tilted(self._problem.network, rows, self._skip, np.concatenate(list(M)))
        domain, at_fixed = self._problem.domain, self._problem.at_fixed
        if at_fixed.any():
            places, weights = np.abs(self._skip).argmax(axis=1), np.ones(network.input_dim)
            weights[places] = self._reach
            return LipschitzProblem(network, domain, "l1", "linf", wrt=places, weights=weights)
        directions = self._problem.directions
        return LipschitzProblem(network, domain, "l1", "linf", directions=directions)

    def _local(self, rng: np.random.Generator, only: End | None = None) -> bool:
        """Look for better points, maybe of one end alone; True if there was one."""
        _, M = self._offsets(only)
        joint = self._joint(M)
        found = kind_of(joint.network).short_incumbent(joint, rng, self._clock)
        return found is not None and bool(self._look(found.point))

    def _tilt(self) -> _Tilt:
        """What the next search asks."""
        C, M = self._offsets()
        tolerance = float(self._tolerance[self._open.any(axis=0)].min())
        return _Tilt(M, C, float(np.clip(0.5 * tolerance / C, EQUAL, CLOSED)))

    def _round(self, tilt: _Tilt) -> bool:
        """One search; True if another one is to follow."""
        C, M, slack = tilt.cutoff, tilt.offsets, tilt.slack
        joint = self._joint(M)
        best, found_at, nodes = C * (1.0 + slack), 0, 0

        def hear(progress: Progress) -> None:
            nonlocal best, found_at, nodes
            nodes = progress.nodes
            if progress.lower > best:
                best, found_at = progress.lower, nodes
            self._tell(max(progress.upper - C, 0.0), progress.nodes, progress.message)

        def enough() -> bool:
            """Whether a better point was found, and none better in as many nodes again.

            Next to a kink points come better and better.
            """
            return clock.interrupted or (best > C * (1.0 + slack) and nodes >= 2 * found_at)

        clock = self._clock
        settings = replace(
            self._settings,
            time_limit=max(clock.left, 1e-3),
            should_stop=enough,
            progress=hear,
            started=None,
        )
        run = Run(joint, settings)
        found = search(run, C * (1.0 + slack), self._kept(tilt.encode()), slack)
        if was_interrupted(found) and (found.stopped or not enough()):
            clock.stop()
        self.nodes += found.nodes or 0
        self._drop(found.upper, M)
        if found.witness is None:
            return False
        return bool(self._look(found.witness.point)) or best > C * (1.0 + slack)

    # -- checkpoints -------------------------------------------------------------------------------

    def _before(self) -> Arrays | None:
        """What was known when a search was stopped, once it is known again; None for nothing.

        Bounds are above what was attained then: if less is now, they are not taken.
        """
        state = self._states.state(KNOWN)
        if state is None:
            return None
        for parts in state["points"]:
            self._look(parts)
        if (self.attained < state["attained"]).any():
            return None
        self._unfinished = self._states.state(SEARCH)
        self.proved, self.nodes = np.minimum(self.proved, state["proved"]), int(state["nodes"])
        return state

    def _kept(self, asked: Arrays) -> Kept | None:
        """Where a search keeps its state: beside what it asks, and what is known of all entries."""
        part, state = self._states.part(SEARCH), self._unfinished
        self._unfinished = None  # further searches ask something else
        return None if part is None else _Beside(part, state, lambda new: self._keep(asked, new))

    def _keep(self, asked: Arrays, state: Arrays) -> None:
        places = [at for side in self._points for row in side for at in row if at is not None]
        points = [at.point if at.rest is not None else [at.x, 0.0 * at.x] for at in places]
        known: Arrays = {
            "attained": self.attained,
            "proved": self.proved,
            "points": np.array(points).reshape(-1, 2, self._problem.network.input_dim),
            "nodes": np.array(self.nodes),
        }
        self._states.save({KNOWN: known | asked, SEARCH: state})

    def _tell(self, gap: float, nodes: int = 0, message: str = "") -> None:
        """Tell the caller the largest size that is attained, and what the widest gap adds to it."""
        if self._settings.progress is not None:
            known = np.abs(self.attained[np.isfinite(self.attained)])
            size = float(known.max(initial=0.0))
            total, seconds = self.nodes + nodes, self._clock.seconds
            self._settings.progress(Progress(seconds, size, size + gap, total, message))

    def _drop(self, upper: float, M: FloatArray) -> None:
        """Take a bound of the largest tilted derivative."""
        if not math.isfinite(upper):
            return
        for s, i, j in np.ndindex(*M.shape):
            offset = exact(float(M[s, i, j])) * exact(float(self._reach[j]))
            _, above = around(exact(upper) - offset)
            self.proved[s, i, j] = min(float(self.proved[s, i, j]), above)


@dataclass(frozen=True, eq=False)
class _Tilt:
    """What a search of a tilted network asks.

    Attributes
    ----------
    offsets : ndarray, shape (2, p, k)
        M, of the negatives and of the entries.
    cutoff : float
        C.
    slack : float
        Relative distance at which a bound counts as met.
    """

    offsets: FloatArray
    cutoff: float
    slack: float

    def encode(self) -> Arrays:
        """As plain arrays."""
        return {"offsets": self.offsets, "numbers": np.array([self.cutoff, self.slack])}

    @classmethod
    def decode(cls, arrays: Arrays) -> _Tilt:
        """From these."""
        return cls(arrays["offsets"], *arrays["numbers"].tolist())


@dataclass(frozen=True, eq=False)
class _Beside:
    """Where a search keeps its state, if more is to be written with it."""

    part: Kept
    state: Arrays | None
    save: Callable[[Arrays], None]

    @property
    def trouble(self) -> str | None:
        return self.part.trouble
