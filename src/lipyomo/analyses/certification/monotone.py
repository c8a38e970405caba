"""Monotone inputs: whether ``c . f`` increases with an input everywhere in a box.

It does if the least slope, the minimum of the partial derivative over all regions that meet the
box, is not negative.  Least slopes are Lipschitz constants: with M at least twice the size of every
partial derivative of c . f over the box, the l1 constant (largest partial derivative) of

    h(x) = M x_i - c . f(x)

is attained at input i and equals ``M - min d(c . f)/dx_i``, since ``M - min >= M / 2`` and every
other partial derivative of h is at most M / 2.  So every method of the package can decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import bound_until, solve, unless_interrupted
from lipyomo.analyses.certification.columns import Columns
from lipyomo.analyses.certification.data import (
    Clip,
    DataError,
    OnnxSource,
    Report,
    ReportRow,
    RowTask,
    RuntimeValues,
    clip_box,
    data_point,
)
from lipyomo.analyses.certification.tables import read_inputs, with_names
from lipyomo.analyses.questions.entry_ends import tilted
from lipyomo.analyses.quick import read_network
from lipyomo.base.arguments import instance, real_number, real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.numerics.exact import exact
from lipyomo.methods.registry import bounding_methods
from lipyomo.networks.naming import by_name, called
from lipyomo.networks.network import Network, check_network
from lipyomo.primal.regions.value import around, value_at
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import chosen_functional
from lipyomo.problems.settings import Work, WorkKeywords, changed, takes

if TYPE_CHECKING:
    from lipyomo.formats.onnx.arrange import Fixed, Output

SLOPE = 1e-5
"""Slopes above minus this share of the largest one count as not negative."""


class Trend(StrEnum):
    """The decision about an input over a box."""

    MONOTONE = "monotone"
    NOT_MONOTONE = "not monotone"
    OPEN = "open"


@dataclass(frozen=True)
class MonotoneRow(ReportRow):
    """The result for one input over the box around one row.

    Attributes
    ----------
    row : int
        The index of the row in the data.
    input : int
    name : str or None
        The name of the input.
    wanted : {'increasing', 'decreasing'}
    slope_lower : float or None
        A proved lower bound of all slopes in the box (of the negative output if it should be
        decreasing).
    slope_upper : float or None
        The least slope that was found, at an interior point.
    point, other : list of float or None
        Two points that differ only in this input, `other` with the larger entry, between which the
        output changes in the wrong direction; None if no two points that were tried show this.
    wrong_by : float or None
        The change of the output in the wrong direction.
    confirmed : bool or None
        Whether onnxruntime agrees (its float32 may be too coarse); None if it was not used.
    """

    verdicts = Trend

    row: int
    input: int
    wanted: str
    name: str | None = None
    slope_lower: float | None = None
    slope_upper: float | None = None
    point: list[float] | None = None
    other: list[float] | None = None
    wrong_by: float | None = None
    confirmed: bool | None = None


@dataclass(frozen=True)
class MonotoneReport(Report):
    """The rows of a data set, one for each input and point.

    Attributes
    ----------
    rows : tuple of MonotoneRow
    columns : Columns or None
        How the columns of a table were interpreted.
    """

    rows: tuple[MonotoneRow, ...]
    columns: Columns | None = None

    def summary(self) -> dict[str, Any]:
        """Return counts, in total and for each input, as plain data."""
        inputs: dict[int, Counter[str]] = {}
        names = {row.input: row.name or str(row.input) for row in self.rows}
        for row in self.rows:
            inputs.setdefault(row.input, Counter())[str(row.verdict or "unusable")] += 1
        return {
            "rows": len(self.rows),
            "unusable": sum(row.error is not None for row in self.rows),
            **{str(verdict): self.count(verdict) for verdict in Trend},
            "why unusable": self.reasons(),
            "inputs": {names[i]: dict(count) for i, count in sorted(inputs.items())},
        }

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Trend)
        return f"MonotoneReport: {len(self.rows)} rows, {counts}"


class MonotoneKeywords(WorkKeywords, total=False):
    """Fields of `MonotoneSettings` as keywords."""

    method: str
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class MonotoneSettings(Work):
    """Settings of the decisions about inputs.

    Attributes
    ----------
    time_limit : float
        Seconds for each row and input.
    method : str
        A method of `lipyomo.solve`.
    tolerance : float
        Slopes above minus this share of the largest one count as not negative.
    """

    time_limit: float = 10.0
    method: str = "bnb"
    tolerance: float = SLOPE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not real_number(self.tolerance, "the tolerance", LipyomoError) >= 0:
            raise LipyomoError("the tolerance must not be negative")
        if self.method not in bounding_methods():
            known = ", ".join(bounding_methods())
            raise LipyomoError(f"method '{self.method}' proves no sign.  Remedy: one of {known}")


@takes(MonotoneKeywords)
def check_monotone(
    network: Any,
    inputs: Any,
    radius: npt.ArrayLike,
    increasing: Iterable[int | str] = (),
    decreasing: Iterable[int | str] = (),
    functional: npt.ArrayLike | None = None,
    clip: Clip | None = None,
    *,
    onnx: OnnxSource | None = None,
    output: Output = None,
    fixed: Fixed | None = None,
    **settings: Unpack[MonotoneKeywords],
) -> MonotoneReport:
    """Prove or refute that an output increases or decreases with inputs, over boxes around rows.

    Parameters
    ----------
    network : Network, str, path-like, torch.nn.Module or scikit-learn estimator
        A path to an ONNX file; then every counterexample is checked by onnxruntime.
    inputs : array_like, shape (n, d), or a frame
        The centres of the boxes.  The columns of a frame are matched with the network's
        `input_names`.
    radius : float or array_like, shape (d,)
        The half widths of the boxes, whose sides are rounded outwards.
    increasing, decreasing : iterable of int or str, optional
        The inputs with which the output should increase or decrease, by index or name.
    functional : array_like, shape (m,), optional
        c, for the output ``c . f``; needed unless there is one output.
    clip : (lower, upper), optional
        The box of valid inputs.
    onnx : path, (path, output) or (path, output, fixed), optional
        The file that the network was loaded from, and how (see `lipyomo.load`); then every
        counterexample is checked by onnxruntime.
    output, fixed : optional
        Options for an ONNX file, see `lipyomo.load`.
    **settings
        Seconds for each row and input (`time_limit`, 10 by default), the `method` (see
        `lipyomo.solve`), and where rows are decided (`workers`, `executor` or `dask`, see
        `lipyomo.sweep`).  Slopes above minus the `tolerance` (1e-5) of the largest one count as not
        negative.

    Returns
    -------
    MonotoneReport

    Raises
    ------
    LipyomoError
        If the data does not match the network, or an argument is wrong.

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
    given = read_network(network, inputs, output, fixed)
    data = read_inputs(inputs, None, given.network.input_names, given.network.input_dim)
    task = MonotoneTask(
        with_names(given.network, data), radius, increasing, decreasing, functional, clip,
        changed(MonotoneSettings, None, settings), given.onnx if onnx is None else onnx,
    )  # fmt: skip
    rows = task.run(task.jobs(data.inputs))
    return MonotoneReport(tuple(sorted(rows, key=lambda row: row.index)), data.columns)


Job = tuple[int, int, int, FloatArray]
"""(index, row of the data, input, point)."""


@dataclass
class MonotoneTask(RowTask[Job, MonotoneRow]):
    """The task of `check_monotone` for every row, with checked parameters."""

    network: Network
    radius: npt.ArrayLike
    increasing: Iterable[int | str] = ()
    decreasing: Iterable[int | str] = ()
    functional: npt.ArrayLike | None = None
    clip: Clip | None = None
    settings: MonotoneSettings = field(default_factory=MonotoneSettings)
    onnx: OnnxSource | None = None

    def __post_init__(self) -> None:
        check_network(self.network, LipyomoError)
        self._values = (
            None if self.onnx is None else RuntimeValues(self.onnx, self.network.input_dim)
        )
        d, names = self.network.input_dim, self.network.input_names
        up, down = (
            list(by_name(_named(getattr(self, name), name), names, what=name))
            for name in ("increasing", "decreasing")
        )
        if not up and not down:
            raise LipyomoError("name inputs that should be increasing or decreasing")
        for i in up + down:
            if not (isinstance(i, int | np.integer) and 0 <= i < d):
                raise LipyomoError(f"there is no input {i}.  Remedy: the network has 0 to {d - 1}")
        if len(set(up + down)) < len(up + down):
            raise LipyomoError("an input is named twice")
        half = real_numbers(self.radius, "the radius", LipyomoError)
        if half.shape not in ((), (d,)) or not (np.isfinite(half).all() and (half >= 0).all()):
            raise LipyomoError(
                f"the radius must be one finite number, or one for each of {d} inputs"
            )
        self._row = chosen_functional(self.network, self.functional)
        self.signs = {**dict.fromkeys(up, 1), **dict.fromkeys(down, -1)}
        self._half, self._box = np.broadcast_to(half, d), clip_box(self.clip, d)
        self._size: tuple[int, float | None] = (-1, None)  # of the slopes of the last row

    def jobs(self, points: FloatArray) -> list[Job]:
        """Return jobs for each point and input."""
        pairs = product(range(len(points)), self.signs)
        return [(n, k, i, points[k]) for n, (k, i) in enumerate(pairs)]

    def blank(self, job: Job) -> MonotoneRow:
        """Return the row of a job without results."""
        index, k, i, _ = job
        names = self.network.input_names
        wanted = "increasing" if self.signs[i] > 0 else "decreasing"
        return MonotoneRow(index, k, i, wanted, None if names is None else names[i])

    def decide(self, job: Job) -> MonotoneRow:
        """Decide one input over one box."""
        _, k, i, x = job
        x, half, row = data_point(x, self._box), self._half, self.signs[i] * self._row
        low = np.where(half > 0, np.nextafter(x - half, -np.inf), x)
        high = np.where(half > 0, np.nextafter(x + half, np.inf), x)
        box = self._box.clipped(low, high)
        if box.frozen[i]:
            name = called(i, self.network.input_names)
            raise DataError(f"{name} cannot move in its box")
        known = self._size[1] if self._size[0] == k else None
        least = least_slope(self.network, box, row, i, self.settings, known)
        self._size = k, least.size
        tolerance = self.settings.tolerance * least.size
        found = replace(
            self.blank(job),
            slope_lower=least.lower if math.isfinite(least.lower) else None,
            slope_upper=None if least.point is None else least.upper,
            verdict=Trend.MONOTONE if least.lower >= -tolerance else Trend.OPEN,
        )
        if least.lower >= -tolerance or least.point is None or least.upper >= -tolerance:
            return found
        found = replace(found, verdict=Trend.NOT_MONOTONE)
        (point, other), wrong = _pair(self.network, row, box, least.point, i)
        if wrong <= 0:
            return found
        confirmed = None
        if self._values is not None:
            values = self._values
            confirmed = bool(row @ (values(other) - values(point)) < 0)
        return replace(
            found,
            point=point.tolist(),
            other=other.tolist(),
            wrong_by=wrong,
            confirmed=confirmed,
        )


def _named(inputs: Any, what: str) -> list[int | str]:
    """Return inputs as they were given, one or several."""
    instance(inputs, Iterable, what, LipyomoError, "the numbers of inputs")
    return [inputs] if isinstance(inputs, str) else list(inputs)


@dataclass(frozen=True)
class LeastSlope:
    """An interval [lower, upper] of the least slope; upper is attained at the point.

    No slope of any input is larger than `size` in absolute value.
    """

    size: float
    lower: float = -math.inf
    upper: float = math.inf
    point: FloatArray | None = None


def least_slope(
    network: Network,
    box: Box,
    row: FloatArray,
    i: int,
    settings: MonotoneSettings,
    size: float | None = None,
) -> LeastSlope:
    """Compute the least slope of ``row . f`` in input i over a box.

    Parameters
    ----------
    network : Network
    box : Box
    row : ndarray, shape (m,)
    i : int
    settings : MonotoneSettings
        The search stops as soon as it is decided whether a slope is below minus the tolerance.
    size : float, optional
        A bound of the absolute values of all slopes, if it is known.

    Returns
    -------
    LeastSlope
    """
    clock = Clock(settings.time_limit)
    if size is None:
        problem = LipschitzProblem(network, box, "l1", functional=row)
        size = unless_interrupted(solve(problem, "fastlip", attain=False)).upper
    if not math.isfinite(size):
        raise LipyomoError("the slopes have no bound")
    scale = 1.0 if size == 0 else math.ldexp(1.0, math.frexp(2.0 * size)[1])
    goal = scale + settings.tolerance * size
    tilt = tilted(network, -row[None], np.eye(1, network.input_dim, i), np.array([[scale]]))
    problem = LipschitzProblem(tilt, box, "l1")
    found = bound_until(problem, settings.method, goal, goal, max(clock.left, 1e-3))
    # M - upper has no error beyond its last place, as both have the same size
    lower = max(float(np.nextafter(scale - found.upper, -math.inf)), -size)
    if found.witness is None:
        return LeastSlope(size, lower)
    upper = float(np.nextafter(scale - found.lower, math.inf))
    return LeastSlope(size, lower, upper, found.witness.x)


def _pair(
    network: Network, row: FloatArray, box: Box, x: FloatArray, i: int
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Return two points along input i with the largest decrease of ``row . f`` of those tried."""
    width = box.upper[i] - box.lower[i]
    steps = width * 2.0 ** -np.arange(np.finfo(np.float64).nmant)
    ends = x[i] + np.concatenate([steps, -steps])
    ends = ends[(ends > box.lower[i]) & (ends < box.upper[i]) & (ends != x[i])]
    points = np.repeat(x[None], ends.size, axis=0)
    points[:, i] = ends
    rise = (network.forward(points) - network.forward(x)) @ row * np.sign(ends - x[i])
    best = int(np.argmin(rise))
    pair = (x, points[best]) if ends[best] > x[i] else (points[best], x)
    (least, _), (_, most) = (value_at(network, row, at) for at in pair)
    return pair, around(exact(least) - exact(most))[0]
