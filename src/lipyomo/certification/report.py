"""Whole data sets: rows as they are decided, a summary, and certified accuracy over the radius."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lipyomo.certification.classifier import NO_LABEL, Classifier, Clip
from lipyomo.certification.point import (
    LADDER,
    Check,
    PointSettings,
    RobustnessRow,
    Verdict,
    certify_point,
)
from lipyomo.errors import LipyomoError
from lipyomo.executors import Workers
from lipyomo.network import FloatArray, Network
from lipyomo.norms import OutputNorm
from lipyomo.result import frame_of

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)

OnnxSource = str | Path | tuple[str | Path, str]
"""An ONNX file, and maybe the node at which it was cut."""

_Job = tuple[int, FloatArray, int | None]


class Report(ABC):
    """Rows, and what they add up to.

    Attributes
    ----------
    rows : tuple
        Each with a `verdict`, None where it could not be used, and a method `to_dict`.
    """

    rows: tuple[Any, ...]

    def count(self, verdict: StrEnum) -> int:
        """Number of rows with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Counts and shares, as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Summary and rows as plain data."""
        return {"summary": self.summary(), "rows": [row.to_dict() for row in self.rows]}

    def to_frame(self) -> DataFrame:
        """The rows as a pandas frame."""
        return frame_of(row.to_dict() for row in self.rows)


@dataclass(frozen=True)
class RobustnessReport(Report):
    """The rows of a data set, and what they add up to.

    Attributes
    ----------
    radius : float
    rows : tuple of RobustnessRow
        In the order of the data.
    """

    radius: float
    rows: tuple[RobustnessRow, ...]

    @property
    def used(self) -> int:
        """Number of rows that could be used."""
        return sum(row.error is None for row in self.rows)

    @property
    def decided(self) -> float:
        """Share of the rows that could be used that are not open; zero if there are none."""
        return (self.used - self.count(Verdict.OPEN)) / max(self.used, 1)

    def certified_accuracy(self, radii: npt.ArrayLike) -> FloatArray:
        """Share of the rows that are classified rightly with at least each certified radius."""
        right = [r for r in self.rows if r.verdict not in (None, Verdict.MISCLASSIFIED)]
        inner = np.array([row.certified_radius for row in right])
        points = np.asarray(radii, dtype=np.float64).reshape(-1, 1)
        return np.asarray((inner[None] >= points).sum(axis=1) / max(self.used, 1))

    def attacked_accuracy(self, radii: npt.ArrayLike) -> FloatArray:
        """Share of the rows for which no adversarial example within each radius is known."""
        outer = np.array([row.adversarial_radius for row in self.rows if row.error is None])
        points = np.asarray(radii, dtype=np.float64).reshape(-1, 1)
        return np.asarray((outer[None] > points).sum(axis=1) / max(self.used, 1))

    def summary(self) -> dict[str, Any]:
        """Counts and shares, as plain data."""
        seconds = [row.seconds for row in self.rows if row.error is None]
        right = self.used - self.count(Verdict.MISCLASSIFIED)
        return {
            "radius": self.radius,
            "rows": len(self.rows),
            "unusable": len(self.rows) - self.used,
            "robust": self.count(Verdict.ROBUST),
            "not robust": self.count(Verdict.NOT_ROBUST),
            "open": self.count(Verdict.OPEN),
            "misclassified": self.count(Verdict.MISCLASSIFIED),
            "clean accuracy": right / max(self.used, 1),
            "certified accuracy": self.count(Verdict.ROBUST) / max(self.used, 1),
            "decided": self.decided,
            "decided by": dict(Counter(row.method for row in self.rows if row.method)),
            "median seconds": float(np.median(seconds)) if seconds else None,
        }

    def __repr__(self) -> str:
        found = self.summary()
        return (
            f"RobustnessReport: {found['robust']} of {self.used} robust at radius {self.radius:g}, "
            f"{found['not robust']} not robust, {found['misclassified']} misclassified, "
            f"{found['open']} open"
        )


def certify_robustness(
    network: Network,
    inputs: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    radius: float = 0.0,
    norm: str | OutputNorm = "linf",
    clip: Clip | None = None,
    time_limit: float = 10.0,
    exact: bool = False,
    ladder: Iterable[str] = LADDER,
    radii: bool = True,
    seed: int = 0,
    solver: str = "auto",
    workers: int | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    onnx: OnnxSource | None = None,
    progress: Callable[[RobustnessRow], None] | None = None,
) -> RobustnessReport:
    """Decide which points of a data set keep their class under every small perturbation.

    Parameters
    ----------
    network : Network
        A classifier: one output a class, or one whose sign is the class.
    inputs : array_like, shape (n, d) or (n, ...)
    labels : array_like of int, shape (n,), optional
        The predicted classes if left out.
    radius : float
        The radius R of the verdicts.
    norm : {'linf', 'l2', 'l1'} or OutputNorm, optional
        In which perturbations are measured; a polyhedral (fair) metric is a `LinearOutput` with the
        vertices of its dual ball.
    clip : (lower, upper), optional
        Box of valid inputs.
    time_limit : float, optional
        Seconds a point.
    exact : bool, optional
        Decide what is left by a MIP over the forward blocks.
    ladder : iterable of str, optional
        What certifies, cheapest first: ``global``, ``margins``, and methods with an upper end.
    radii : bool, optional
        Bisect for the certified radius of each point, to a relative 1e-3.
    seed : int, optional
    solver : str, optional
        Of the MIP.
    workers, executor, dask : optional
        As for `lipyomo.sweep`.
    onnx : path or (path, output), optional
        The file that the network came from, and the node at which it was cut: onnxruntime then
        confirms every example.
    progress : callable, optional
        Called with every row as it is decided.

    Returns
    -------
    RobustnessReport

    Raises
    ------
    LipyomoError
        If data and network do not fit together or an argument is wrong.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])  # two classes: x > 0, x < 0
    >>> report = lipyomo.certify_robustness(network, [[0.5], [-0.1]], radius=0.2, workers=1)
    >>> [(str(row.verdict), round(row.certified_radius, 2)) for row in report.rows]
    [('robust', 0.5), ('not robust', 0.1)]
    """
    points = data_points(inputs)
    names = [*ladder, "exact"] if exact else list(ladder)
    settings = PointSettings(radius, time_limit, tuple(names), radii, seed, solver)
    classifier = Classifier(network, norm, clip)
    rows = certify_rows(
        classifier, data_rows(points, labels), settings, onnx, workers, executor, dask
    )
    found = []
    for row in rows:
        found.append(row)
        if progress is not None:
            progress(row)
    return RobustnessReport(radius, tuple(sorted(found, key=lambda row: row.index)))


def data_points(inputs: npt.ArrayLike) -> FloatArray:
    """Inputs as points, shape (n, d).

    Raises
    ------
    LipyomoError
        If they are not one row a point.
    """
    points = np.asarray(inputs, dtype=np.float64)
    if points.ndim < 2:
        raise LipyomoError(f"inputs have shape {points.shape}, expected one row a point")
    return points.reshape(len(points), math.prod(points.shape[1:]))


def data_rows(points: FloatArray, labels: npt.ArrayLike | None) -> list[_Job]:
    """(index, x, label) of every row.

    Raises
    ------
    LipyomoError
        If there are not as many labels as points, or they are no whole numbers.
    """
    if labels is None:
        return [(k, x, None) for k, x in enumerate(points)]
    given = np.asarray(labels).reshape(-1)
    if given.size != len(points):
        raise LipyomoError(f"{len(points)} inputs, but {given.size} labels")
    if given.dtype.kind not in "iufb":
        raise LipyomoError("labels are the numbers of classes: whole numbers from 0 on")
    return [(k, x, _label(y)) for k, (x, y) in enumerate(zip(points, given, strict=True))]


def _label(value: float) -> int:
    """A label as a number of a class; `NO_LABEL` for what is no whole number."""
    whole = np.isfinite(value) and value == np.floor(value) and value >= 0
    return int(value) if whole else NO_LABEL


class _Task:
    """What travels to a worker once, and decides rows there."""

    def __init__(
        self, classifier: Classifier, settings: PointSettings, onnx: OnnxSource | None
    ) -> None:
        self.classifier, self.settings, self.onnx = classifier, settings, onnx

    def __call__(self, job: _Job) -> RobustnessRow:
        index, x, label = job
        check = None if self.onnx is None else runtime_check(self.onnx)
        return certify_point(self.classifier, x, label, self.settings, index, check)


def certify_rows(
    classifier: Classifier,
    jobs: Iterable[_Job],
    settings: PointSettings,
    onnx: OnnxSource | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
) -> Iterator[RobustnessRow]:
    """Rows as they are decided; `certify_robustness` collects them."""
    known = list(jobs)
    task = _Task(classifier, settings, onnx)
    with Workers[_Job, RobustnessRow](workers, executor, dask, len(known)) as pool:
        for position, found in pool.run(task, known):
            if isinstance(found, LipyomoError):
                found = RobustnessRow(known[position][0], error=str(found))
            logger.info("row %d: %s %s", found.index, found.verdict, found.error or found.method)
            yield found


Values = Callable[[FloatArray], FloatArray]

_RUNTIMES: dict[tuple[str, str | None], Values] = {}
"""One session a process and file."""


def runtime_values(onnx: OnnxSource) -> Values:
    """Outputs by onnxruntime, from the file that the network came from."""
    path, output = onnx if isinstance(onnx, tuple) else (onnx, None)
    key = str(path), output
    if key not in _RUNTIMES:
        import onnx as onnx_package

        from lipyomo.onnx.runtime import open_runtime

        runtime = open_runtime(onnx_package.load(key[0]), output)
        _RUNTIMES[key] = lambda point: runtime(point)[0]
    return _RUNTIMES[key]


def runtime_check(onnx: OnnxSource) -> Check:
    """Classes by onnxruntime."""
    values = runtime_values(onnx)

    def classify(point: FloatArray) -> int:
        found = values(point)
        return int(found[0] > 0) if found.size == 1 else int(np.argmax(found))

    return classify
