"""Monotone inputs: whether ``c . f`` grows with an input everywhere in a box.

It does if the least slope, that of the partial derivative over all regions that meet the box, is
not negative.  Least slopes are Lipschitz constants: with M at least twice the size of every partial
derivative of c . f over the box, the l1 constant (largest partial derivative) of

    h(x) = M x_i - c . f(x)

is attained at input i and equals ``M - min d(c . f)/dx_i``, since ``M - min >= M / 2`` and every
other partial derivative of h is at most M / 2.  So every method of the package proves or refutes.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.api import solve
from lipyomo.certification.classifier import Clip, DataError
from lipyomo.certification.goal import bound_until
from lipyomo.certification.report import OnnxSource, Report, data_points, runtime_values
from lipyomo.domains import Box
from lipyomo.errors import LipyomoError
from lipyomo.executors import Workers
from lipyomo.network import FloatArray, Layer, Network
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import side_by_side

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""Slopes above minus this share of the largest one count as not negative."""

PAIRS = 48
"""Lengths of steps that are tried for a pair of points."""


class Trend(StrEnum):
    """What is known of an input over a box."""

    MONOTONE = "monotone"
    NOT_MONOTONE = "not monotone"
    OPEN = "open"


@dataclass(frozen=True)
class MonotoneSettings:
    """What is asked of every row.

    Attributes
    ----------
    signs : dict of int to {1, -1}
        Inputs, and whether the output should grow (1) or fall (-1) with them.
    radius : float or ndarray, shape (d,)
        Half widths of the boxes, whose sides are rounded outwards.
    clip : Box
        Of valid inputs.
    method : str
    time_limit : float
        Seconds a row and input.
    tolerance : float
        Relative to the largest slope.
    """

    signs: dict[int, int]
    radius: float | FloatArray
    clip: Box
    method: str = "bnb"
    time_limit: float = 10.0
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class MonotoneRow:
    """What is known of one input over the box around one row.

    Attributes
    ----------
    index : int
    row : int
        Of the data.
    input : int
    wanted : {'increasing', 'decreasing'}
    slope_lower : float or None
        No slope in the box is less (of the falling output, if that is wanted); proved.
    slope_upper : float or None
        The least slope that was found, at an interior point.
    verdict : Trend or None
    point, other : list of float or None
        Two inputs that differ in this one alone, `other` with the larger entry, between which the
        output goes the wrong way.
    wrong_by : float or None
        By how much.
    confirmed : bool or None
        Whether onnxruntime sees that too (its float32 may be too coarse); None if it was not asked.
    seconds : float
    error : str or None
        Why the row could not be used.
    """

    index: int
    row: int
    input: int
    wanted: str
    slope_lower: float | None = None
    slope_upper: float | None = None
    verdict: Trend | None = None
    point: list[float] | None = None
    other: list[float] | None = None
    wrong_by: float | None = None
    confirmed: bool | None = None
    seconds: float = 0.0
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        row = asdict(self)
        row["verdict"] = None if self.verdict is None else str(self.verdict)
        return row

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> MonotoneRow:
        """The row that `to_dict` has written."""
        verdict = None if row.get("verdict") is None else Trend(row["verdict"])
        return cls(**{**row, "verdict": verdict})


@dataclass(frozen=True)
class MonotoneReport(Report):
    """The rows of a data set, one an input and point."""

    rows: tuple[MonotoneRow, ...]

    def summary(self) -> dict[str, Any]:
        """Counts, in all and for each input, as plain data."""
        inputs: dict[int, Counter[str]] = {}
        for row in self.rows:
            inputs.setdefault(row.input, Counter())[str(row.verdict or "unusable")] += 1
        return {
            "rows": len(self.rows),
            "unusable": sum(row.error is not None for row in self.rows),
            **{str(verdict): self.count(verdict) for verdict in Trend},
            "inputs": {str(name): dict(count) for name, count in sorted(inputs.items())},
        }

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Trend)
        return f"MonotoneReport: {len(self.rows)} rows, {counts}"


def check_monotone(
    network: Network,
    inputs: npt.ArrayLike,
    radius: npt.ArrayLike,
    increasing: Iterable[int] = (),
    decreasing: Iterable[int] = (),
    functional: npt.ArrayLike | None = None,
    clip: Clip | None = None,
    method: str = "bnb",
    time_limit: float = 10.0,
    tolerance: float = TOLERANCE,
    workers: int | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    onnx: OnnxSource | None = None,
) -> MonotoneReport:
    """Prove or refute that an output grows (or falls) with some inputs, over boxes around rows.

    Parameters
    ----------
    network : Network
    inputs : array_like, shape (n, d)
        Centres of the boxes.
    radius : float or array_like, shape (d,)
        Half widths of the boxes, whose sides are rounded outwards.
    increasing, decreasing : iterable of int, optional
        Inputs with which the output should grow, or fall.
    functional : array_like, shape (m,), optional
        c, for the output ``c . f``; needed unless there is one output.
    clip : (lower, upper), optional
        Box of valid inputs.
    method : str, optional
        As for `lipyomo.solve`.
    time_limit : float, optional
        Seconds a row and input.
    tolerance : float, optional
        Slopes above minus this share of the largest one count as not negative.
    workers, executor, dask : optional
        As for `lipyomo.sweep`.
    onnx : path or (path, output), optional
        The file that the network came from, and the node at which it was cut: onnxruntime then
        looks at every counterexample.

    Returns
    -------
    MonotoneReport

    Raises
    ------
    LipyomoError
        If data and network do not fit together or an argument is wrong.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0, -1.0]], [[2.0]]])  # 2 relu(x_0 - x_1)
    >>> report = lipyomo.check_monotone(
    ...     network, [[0.0, 0.0]], 1.0, increasing=[0, 1], workers=1
    ... )
    >>> [(row.input, str(row.verdict)) for row in report.rows]
    [(0, 'monotone'), (1, 'not monotone')]
    """
    points = data_points(inputs)
    task = monotone_task(
        network, radius, increasing, decreasing, functional, clip, method, time_limit, tolerance,
        onnx,
    )  # fmt: skip
    rows = task.run(points, (), workers, executor, dask)
    return MonotoneReport(tuple(sorted(rows, key=lambda row: row.index)))


def monotone_task(
    network: Network,
    radius: npt.ArrayLike,
    increasing: Iterable[int],
    decreasing: Iterable[int],
    functional: npt.ArrayLike | None,
    clip: Clip | None,
    method: str,
    time_limit: float,
    tolerance: float,
    onnx: OnnxSource | None,
) -> MonotoneTask:
    """The checked arguments of `check_monotone`, as what decides rows."""
    d, m = network.input_dim, network.output_dim
    up, down = list(increasing), list(decreasing)
    if not up and not down:
        raise LipyomoError("name inputs that should be increasing or decreasing")
    for i in up + down:
        if not (isinstance(i, int | np.integer) and 0 <= i < d):
            raise LipyomoError(f"there is no input {i}.  Remedy: the network has 0 to {d - 1}")
    if len(set(up + down)) < len(up + down):
        raise LipyomoError("an input is named twice")
    half = np.asarray(radius, dtype=np.float64)
    if half.shape not in ((), (d,)) or not (np.isfinite(half).all() and (half >= 0).all()):
        raise LipyomoError(f"the radius must be one finite number, or one for each of {d} inputs")
    if functional is None and m > 1:
        raise LipyomoError(f"the network has {m} outputs.  Remedy: give a functional of them")
    row = np.ones(1) if functional is None else np.asarray(functional, dtype=np.float64).ravel()
    if row.shape != (m,) or not np.isfinite(row).all():
        raise LipyomoError(f"the functional needs {m} finite entries, one an output")
    if not (tolerance >= 0 and time_limit > 0):
        raise LipyomoError("the tolerance must not be negative, and the time limit positive")
    from lipyomo.methods.registry import bounding_methods

    if method not in bounding_methods():
        known = ", ".join(bounding_methods())
        raise LipyomoError(f"method '{method}' proves no sign.  Remedy: one of {known}")
    box = Box(-np.inf, np.inf, d) if clip is None else Box(clip[0], clip[1], d)
    settings = MonotoneSettings(
        {**dict.fromkeys(up, 1), **dict.fromkeys(down, -1)},
        float(half) if half.ndim == 0 else half,
        box,
        method,
        time_limit,
        tolerance,
    )
    return MonotoneTask(network, row, settings, onnx)


Job = tuple[int, int, int, FloatArray]
"""(index, row of the data, input, point)."""


class MonotoneTask:
    """What travels to a worker once, and decides rows there."""

    def __init__(
        self, network: Network, row: FloatArray, settings: MonotoneSettings, onnx: OnnxSource | None
    ) -> None:
        self.network, self.row, self.settings, self.onnx = network, row, settings, onnx
        self._size: tuple[int, float | None] = (-1, None)  # of the last row's slopes

    def run(
        self,
        points: FloatArray,
        done: Iterable[int] = (),
        workers: int | None = None,
        executor: Executor | None = None,
        dask: str | None = None,
    ) -> Iterator[MonotoneRow]:
        """Rows as they are decided, without those whose index is `done`."""
        pairs = [(k, i) for k in range(len(points)) for i in self.settings.signs]
        skip = set(done)
        jobs = [(n, k, i, points[k]) for n, (k, i) in enumerate(pairs) if n not in skip]
        with Workers[Job, MonotoneRow](workers, executor, dask, len(jobs)) as pool:
            for position, found in pool.run(self, jobs):
                if isinstance(found, LipyomoError):
                    found = self._failed(jobs[position], found, 0.0)
                logger.info("row %d: %s %s", found.index, found.verdict, found.error or "")
                yield found

    def __call__(self, job: Job) -> MonotoneRow:
        """Decide one row."""
        start = time.monotonic()
        try:
            return self._decide(job, start)
        except LipyomoError as error:
            return self._failed(job, error, time.monotonic() - start)

    def _failed(self, job: Job, error: LipyomoError, seconds: float) -> MonotoneRow:
        index, k, i, _ = job
        return MonotoneRow(index, k, i, self._wanted(i), error=str(error), seconds=seconds)

    def _wanted(self, i: int) -> str:
        return "increasing" if self.settings.signs[i] > 0 else "decreasing"

    def _box(self, x: FloatArray, i: int) -> Box:
        settings = self.settings
        if x.size != self.network.input_dim:
            raise DataError(
                f"the row has {x.size} entries, the network takes {self.network.input_dim} inputs"
            )
        if not np.isfinite(x).all():
            raise DataError("the row holds NaN or infinite entries")
        half = np.broadcast_to(np.asarray(settings.radius), x.shape)
        low = np.where(half > 0, np.nextafter(x - half, -np.inf), x)
        high = np.where(half > 0, np.nextafter(x + half, np.inf), x)
        if (x < settings.clip.lower).any() or (x > settings.clip.upper).any():
            raise DataError("the row lies outside the box of valid inputs (--clip)")
        box = Box(np.maximum(low, settings.clip.lower), np.minimum(high, settings.clip.upper))
        if box.frozen[i]:
            raise DataError(f"input {i} cannot move in its box")
        return box

    def _decide(self, job: Job, start: float) -> MonotoneRow:
        index, k, i, x = job
        settings, box = self.settings, self._box(x, i)
        row = settings.signs[i] * self.row
        known = self._size[1] if self._size[0] == k else None
        size, least = least_slope(self.network, box, row, i, settings, start, known)
        self._size = k, size
        tolerance = settings.tolerance * size
        verdict, pair, wrong = Trend.OPEN, None, None
        if least.lower >= -tolerance:
            verdict = Trend.MONOTONE
        elif least.point is not None and least.upper < -tolerance:
            verdict = Trend.NOT_MONOTONE
            pair, wrong = _pair(self.network, row, box, least.point, i, least.upper)
        confirmed = None
        if pair is not None and self.onnx is not None:
            values = runtime_values(self.onnx)
            confirmed = bool(row @ (values(pair[1]) - values(pair[0])) < 0)
        return MonotoneRow(
            index,
            k,
            i,
            self._wanted(i),
            least.lower if math.isfinite(least.lower) else None,
            None if least.point is None else least.upper,
            verdict,
            None if pair is None else pair[0].tolist(),
            None if pair is None else pair[1].tolist(),
            wrong,
            confirmed,
            time.monotonic() - start,
        )


@dataclass(frozen=True)
class Slope:
    """The least slope lies in [lower, upper]; upper is that at the point."""

    lower: float
    upper: float
    point: FloatArray | None


def least_slope(
    network: Network,
    box: Box,
    row: FloatArray,
    i: int,
    settings: MonotoneSettings,
    start: float | None = None,
    size: float | None = None,
) -> tuple[float, Slope]:
    """A bound of the sizes of all slopes of ``row . f`` over a box, and the least one of input i.

    Parameters
    ----------
    network : Network
    box : Box
    row : ndarray, shape (m,)
    i : int
    settings : MonotoneSettings
        The search stops as soon as the sign is decided.
    start : float, optional
        Value of ``time.monotonic()`` from which the time limit counts.
    size : float, optional
        The bound of the sizes of all slopes, if it is known.

    Returns
    -------
    size : float
    slope : Slope
    """
    begun = time.monotonic() if start is None else start
    if size is None:
        plain = LipschitzProblem(network, box, "l1", functional=row)
        size = solve(plain, "fastlip", attain=False).upper
    if not math.isfinite(size):
        return size, Slope(-math.inf, math.inf, None)
    scale = 1.0 if size == 0 else math.ldexp(1.0, math.frexp(2.0 * size)[1])
    tolerance = settings.tolerance * size
    left = max(settings.time_limit - (time.monotonic() - begun), 1e-3)
    problem = LipschitzProblem(tilted(network, row, i, scale), box, "l1")
    found = bound_until(problem, settings.method, scale + tolerance, scale + tolerance, left)
    # M - upper has no error beyond its last place: both are of one size
    lower = max(float(np.nextafter(scale - found.upper, -math.inf)), -size)
    if found.witness is None:
        return size, Slope(lower, math.inf, None)
    upper = float(np.nextafter(scale - found.lower, math.inf))
    return size, Slope(lower, upper, found.witness.x)


def tilted(network: Network, row: FloatArray, i: int, scale: float) -> Network:
    """``scale x_i - row . f``, without rounding: x_i goes through all layers beside the units."""
    entry = Layer(np.eye(1, network.input_dim, i), np.zeros(1))
    both = side_by_side([network.with_functional(-row), Network([entry])])
    return Network([*both.layers, Layer([[1.0, scale]], [0.0])], network.name)


def _pair(
    network: Network, row: FloatArray, box: Box, x: FloatArray, i: int, slope: float
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Two points along input i between which ``row . f`` falls most, of those tried."""
    width = box.upper[i] - box.lower[i]
    steps = width * 2.0 ** -np.arange(PAIRS)
    ends = x[i] + np.concatenate([steps, -steps])
    ends = ends[(ends > box.lower[i]) & (ends < box.upper[i]) & (ends != x[i])]
    points = np.repeat(x[None], ends.size, axis=0)
    points[:, i] = ends
    rise = (network.forward(points) - network.forward(x)) @ row * np.sign(ends - x[i])
    best = int(np.argmin(rise))
    pair = (x, points[best]) if ends[best] > x[i] else (points[best], x)
    return pair, float(-rise[best])
