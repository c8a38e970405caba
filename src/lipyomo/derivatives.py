"""Signed ranges of derivatives ``c . J(x) v`` over a domain, one or all entries of a Jacobian.

A constant is the largest absolute value of derivatives; their signs are told by a linear term.  The
network ``h(x) = +-f(x) + M S x`` has the derivatives ``+-J_ij + M_ij``, and if M_ij is C less the
largest ``+-J_ij`` that is known to be attained, all of them are at most C, as far as is known.  A
search of the largest derivative of h, from l1 to linf, with the cutoff C then proves all ends at
once: nodes keep only the entries that may still exceed what is attained of them.  Where one does,
its M_ij becomes less, and the search begins anew; what was proved before stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.api import chosen_settings
from lipyomo.arguments import instance, real_numbers
from lipyomo.arrays import FloatArray, Matrix
from lipyomo.bounds import preactivation_bounds
from lipyomo.bounds.gradient import gradient_ranges
from lipyomo.bounds.slopes import with_slopes
from lipyomo.errors import ProblemError
from lipyomo.network import Layer, Network
from lipyomo.networks import affine_after, parallel
from lipyomo.norms import LinfOutput
from lipyomo.numerics.exact import exact
from lipyomo.problem import LipschitzProblem
from lipyomo.ranges import Range, tolerance_of
from lipyomo.reduce.direct import product_rounding
from lipyomo.regions.derivative import derivatives_at
from lipyomo.regions.value import around
from lipyomo.result import Progress, Status
from lipyomo.run import Clock, Run
from lipyomo.settings import Settings

SAMPLES = 32
"""Points whose derivatives are looked at first: local searches find better ones."""

TOGETHER = 256
"""Most entries of one search: memory against sharing."""

IDLE = 2
"""Local searches of all entries in a row that find nothing, before each has one of its own."""

SHARE = 0.4
"""Of an entry's tolerance, what a search may leave open: rounding and the offset take some."""

LEAST_SLACK = 1e-9
"""Relative distance from the cutoff below which bounds in float64 hardly come."""


End: TypeAlias = tuple[int, ...]
"""A negative (0) or an entry (1), its row, and its column."""


@dataclass(frozen=True, eq=False)
class JacobianRanges:
    """The ranges of all entries of a Jacobian.

    Attributes
    ----------
    entries : tuple of tuple of Range
        One a row (an output, or a functional) and column (an input, or a direction).
    columns : tuple of int
        The inputs of the columns; with directions that are no single inputs, their numbers.
    status : Status
        ``exact`` if all entries are, else why some are not.
    seconds : float
    nodes : int
        Of branch and bound.
    """

    entries: tuple[tuple[Range, ...], ...]
    columns: tuple[int, ...]
    status: Status
    seconds: float
    nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "columns": list(self.columns),
            "entries": [[entry.to_dict() for entry in row] for row in self.entries],
            "status": str(self.status),
            "seconds": self.seconds,
            "nodes": self.nodes,
        }


def derivative_range(
    problem: LipschitzProblem,
    functional: npt.ArrayLike | None = None,
    direction: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Any,
) -> Range:
    """The least and the largest value of ``c . J(x) v`` over a domain.

    Parameters
    ----------
    problem : LipschitzProblem
        A network and a domain, maybe with directions; its norms do not matter.
    functional : array_like, shape (m,), optional
        c; by default the functional of the problem, or its one output.
    direction : array_like, shape (d,), optional
        v, in inputs; by default the one direction of the problem, or its one input.
    settings : Settings, optional
        Uses time_limit (for both ends together), threads (processes), executor, dask, seed,
        progress and should_stop.
    **changes
        Fields of `Settings` to set, such as ``time_limit=60``.

    Returns
    -------
    Range
        Of the derivatives on full-dimensional pieces inside the domain, or, of a smooth network,
        at its points; attained ends are enclosed at the witnesses.

    Raises
    ------
    ProblemError
        If the parts do not fit together, or the direction moves an input that the domain fixes.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
    >>> problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 3, 1))
    >>> found = lipyomo.derivative_range(problem)
    >>> found.low[1], found.high[0], found.status.value
    (-1.0, 2.0, 'exact')
    """
    settings = chosen_settings(settings, changes)
    network, d = _checked(problem).network, problem.network.input_dim
    row = _functional(problem, functional)
    if direction is None:
        if (d if problem.directions is None else problem.directions.shape[1]) > 1:
            raise ProblemError("there are several directions.  Remedy: give one of them")
        along = problem
    else:
        v = real_numbers(direction, "the direction", ProblemError).reshape(-1)
        if v.size != d or not np.isfinite(v).all():
            raise ProblemError(f"the direction needs {d} finite entries, one an input")
        if not v.any():
            raise ProblemError("the direction is zero.  Remedy: give one that moves an input")
        along = LipschitzProblem(network, problem.domain, "l1", "linf", directions=v)
    return ranges_along(along, row[None], settings).entries[0][0]


def jacobian_ranges(
    problem: LipschitzProblem, settings: Settings | None = None, **changes: Any
) -> JacobianRanges:
    """The ranges of all entries of the Jacobian over a domain, in searches that they share.

    Parameters
    ----------
    problem : LipschitzProblem
        A network and a domain, maybe with directions (``wrt=[0, 3]``) or a functional; its norms do
        not matter.
    settings, **changes : optional
        As of `derivative_range`; the time limit is one for all.

    Returns
    -------
    JacobianRanges
    """
    rows = np.eye(_checked(problem).network.output_dim)
    if problem.functional is not None:
        rows = problem.functional[None]
    return ranges_along(problem, rows, chosen_settings(settings, changes))


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


def _checked(problem: LipschitzProblem) -> LipschitzProblem:
    instance(problem, LipschitzProblem, "the problem", ProblemError, "give a LipschitzProblem")
    if problem.free is not None:
        raise ProblemError("derivatives have no range along inputs that are free of cost")
    return problem


def _functional(problem: LipschitzProblem, functional: npt.ArrayLike | None) -> FloatArray:
    m = problem.network.output_dim
    if functional is None and problem.functional is not None:
        return problem.functional
    if functional is None and m > 1:
        raise ProblemError(f"the network has {m} outputs.  Remedy: give a functional of them")
    given = [1.0] if functional is None else functional
    row = real_numbers(given, "the functional", ProblemError).reshape(-1)
    if row.size != m or not np.isfinite(row).all():
        raise ProblemError(f"the functional needs {m} finite entries, one an output")
    return row


def ranges_along(problem: LipschitzProblem, rows: FloatArray, settings: Settings) -> JacobianRanges:
    """The ranges of ``rows . J T`` for functionals (p, m), some at a time."""
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    size, count = max(1, TOGETHER // _steps(problem)[0].shape[1]), len(rows)
    entries: list[tuple[Range, ...]] = []
    nodes = 0
    for start in range(0, count, size):
        part = rows[start : start + size]
        within = clock.within(clock.left * len(part) / (count - start))
        found = _Search(problem, part, settings, within)
        found.run()
        nodes += found.nodes
        entries += found.ranges()
    exactly = all(entry.status is Status.EXACT for row in entries for entry in row)
    status = Status.EXACT if exactly else _why(clock)
    columns = _steps(problem)[1]
    return JacobianRanges(tuple(entries), columns, status, clock.seconds, nodes)


def _why(clock: Clock) -> Status:
    if clock.interrupted:
        return Status.INTERRUPTED
    return Status.TIME_LIMIT if clock.expired else Status.PRECISION


def _steps(problem: LipschitzProblem) -> tuple[Matrix, tuple[int, ...]]:
    """The directions (d, k) of a problem's columns, and their names: inputs where they are that."""
    if problem.directions is None:
        moving = np.flatnonzero(~problem.domain.frozen)
        return np.eye(problem.network.input_dim)[:, moving], tuple(moving.tolist())
    T = sp.csc_array(problem.directions)
    T.eliminate_zeros()
    if (np.diff(T.indptr) == 1).all():
        return problem.directions, tuple(T.indices.tolist())
    return problem.directions, tuple(range(T.shape[1]))


class _Search:
    """The search of some rows' ranges: what is proved and attained of each entry.

    Attributes
    ----------
    proved, attained : ndarray, shape (2, p, k)
        Upper ends, and attained values, of the entries' negatives and of the entries.
    nodes : int
    """

    def __init__(
        self, problem: LipschitzProblem, rows: FloatArray, settings: Settings, clock: Clock
    ) -> None:
        self.nodes = 0
        self._problem, self._rows, self._clock, self._settings = problem, rows, clock, settings
        T = sp.csc_array(_steps(problem)[0])
        k = T.shape[1]
        self._skip, self._reach = np.zeros((k, T.shape[0])), np.zeros(k)
        places = []
        for j in range(k):
            own = slice(T.indptr[j], T.indptr[j + 1])
            largest = np.abs(T.data[own]).argmax()
            place, entry = int(T.indices[own][largest]), float(T.data[own][largest])
            self._skip[j, place], self._reach[j] = np.sign(entry), abs(entry)
            places.append(place)
        one_by_one = k == 1 or ((np.diff(T.indptr) == 1).all() and len(set(places)) == k)
        if not one_by_one:
            raise ProblemError(
                "entries of a Jacobian are told apart along single inputs.  Remedy: ask for one "
                "direction at a time, with derivative_range"
            )
        self.proved = self._crude()
        self.attained = np.full(self.proved.shape, -np.inf)
        self._points: list[list[list[FloatArray | None]]] = [
            [[None] * k for _ in rows] for _ in range(2)
        ]

    def run(self) -> None:
        """Search until all ends are known, or time is over."""
        rng = np.random.default_rng(self._settings.seed)
        domain = self._problem.domain
        for x in [domain.center, *domain.sample(rng, SAMPLES)]:
            if self._clock.expired:
                break
            self._look(x)
        try:
            self._search(rng)
        except ProblemError:  # terms as large as the slopes leave the range of float64 numbers
            return

    def _search(self, rng: np.random.Generator) -> None:
        """Local searches, first of all entries together, and branch and bound."""
        idle, going = 0, True
        waiting = list(np.ndindex(*self.proved.shape))
        while going and not self._done and not self._clock.expired:
            if idle < IDLE:
                idle = 0 if self._local(rng) else idle + 1
            elif waiting:
                end = waiting.pop()
                if self._open[end] and self._local(rng, end):
                    idle = IDLE - 1
            else:
                going, idle = self._round(), IDLE - 1

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
                row.append(entry if entry.is_exact else replace(entry, status=_why(self._clock)))
            found.append(tuple(row))
        return found

    # -- parts -------------------------------------------------------------------------------------

    def _crude(self) -> FloatArray:
        """Ends that follow from bounds of all units."""
        small = self._problem.reduced.problem
        known = preactivation_bounds(small.network, small.domain)
        network, rounding = with_slopes(small.network, known), 0.0
        if small.directions is not None:
            size = float(np.abs(self._rows).max(initial=0.0))
            rounding = size * product_rounding(network, small.directions, LinfOutput())
            network = network.with_directions(small.directions)
        low, high = gradient_ranges(network, known.phases, self._rows)
        lost = self._problem.underflow + rounding
        return np.stack([-low, high]) + (lost * (1 + 1e-12) if lost else 0.0)

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

    def _look(self, x: FloatArray) -> bool:
        """Take what is attained at a point; True if some end is better than by its tolerance."""
        found = derivatives_at(self._problem, x, self._rows)
        if found is None:
            return False
        values = np.stack([-found[1], found[0]])
        better = values > self.attained
        gain = bool((values > self.attained + 0.1 * self._tolerance).any())
        self.attained = np.where(better, values, self.attained)
        at = np.atleast_2d(x).sum(axis=0)
        for s, i, j in zip(*np.nonzero(better), strict=True):
            self._points[s][i][j] = at
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
        directions = self._problem.directions
        return LipschitzProblem(network, self._problem.domain, "l1", "linf", directions=directions)

    def _local(self, rng: np.random.Generator, only: End | None = None) -> bool:
        """Look for better points, maybe of one end alone; True if there was one."""
        from lipyomo.sampling.local_search import default_evaluations, search_incumbent
        from lipyomo.search.smooth.local import smooth_incumbent

        _, M = self._offsets(only)
        joint = self._joint(M)
        if joint.network.smooth:
            found = smooth_incumbent(joint, rng, None, self._clock)
        else:
            evaluations = default_evaluations(joint.reduced.problem) // 8
            found = search_incumbent(joint, rng, evaluations, self._clock)
        return found is not None and self._look(found.point)

    def _round(self) -> bool:
        """One search; True if another one is to follow."""
        from lipyomo.methods.bnb import search

        C, M = self._offsets()
        joint = self._joint(M)
        tolerance = float(self._tolerance[self._open.any(axis=0)].min())
        slack = float(np.clip(SHARE * tolerance / C, LEAST_SLACK, 9e-7))
        better = [False]

        def hear(progress: Progress) -> None:
            better[0] |= progress.lower > C * (1.0 + slack)
            self._tell(progress, C)

        clock = self._clock
        settings = replace(
            self._settings,
            time_limit=max(clock.left, 1e-3),
            should_stop=lambda: better[0] or clock.interrupted,
            progress=hear,
            started=None,
            checkpoint=None,
        )
        run = Run(joint, settings)
        found = search(run, C * (1.0 + slack), slack=slack)
        self.nodes += found.nodes or 0
        self._drop(found.upper, M)
        if found.witness is None:
            return False
        return self._look(found.witness.point) or better[0]

    def _tell(self, progress: Progress, C: float) -> None:
        """Tell the caller how much of the widest gap is left."""
        if self._settings.progress is not None:
            size = float(np.abs(self.attained).max())
            gap = max(progress.upper - C, 0.0)
            self._settings.progress(replace(progress, lower=size, upper=size + gap))

    def _drop(self, upper: float, M: FloatArray) -> None:
        """Take a bound of the largest tilted derivative."""
        if not math.isfinite(upper):
            return
        for s, i, j in np.ndindex(*M.shape):
            offset = exact(float(M[s, i, j])) * exact(float(self._reach[j]))
            _, above = around(exact(upper) - offset)
            self.proved[s, i, j] = min(float(self.proved[s, i, j]), above)
