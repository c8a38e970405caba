"""Whole data sets: rows as they are decided, a summary, and certified accuracy over the radius."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.arguments import deprecated, instance
from lipyomo.certification.classifier import Classifier
from lipyomo.certification.data import (
    Clip,
    OnnxSource,
    Report,
    RuntimeValues,
    Task,
    data_points,
)
from lipyomo.certification.metric import Polyhedral
from lipyomo.certification.point import (
    METHODS,
    PointSettings,
    RobustnessRow,
    Verdict,
    certify_point,
)
from lipyomo.errors import LipyomoError
from lipyomo.methods.registry import bounding_methods, get_method, refuses_smooth
from lipyomo.network import FloatArray, Network
from lipyomo.norms import OutputNorm
from lipyomo.run import PROVED

Job = tuple[int, FloatArray, float | None]


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
            "on a solver's word": sum(row.basis not in (None, PROVED) for row in self.rows),
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
    methods: Iterable[str] = METHODS,
    radii: bool = True,
    seed: int = 0,
    solver: str = "auto",
    workers: int | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    onnx: OnnxSource | None = None,
    progress: Callable[[RobustnessRow], None] | None = None,
    ladder: Iterable[str] | None = None,
    weights: npt.ArrayLike | None = None,
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
        Find the smallest adversarial perturbation itself, to a relative 1e-6.  Where a solver is
        named, decide what is left by a MIP over the forward blocks instead; branch and bound checks
        what the solver claims, and the basis of a row says whether it could.
    methods : iterable of str, optional
        What certifies, cheapest first: ``global``, ``margins``, and methods with an upper end.
    radii : bool, optional
        Seek the certified radius of each point as well, and examples beyond R.
    seed : int, optional
    solver : str, optional
        Of the MIP, instead of branch and bound on the distance.
    workers, executor, dask : optional
        As for `lipyomo.sweep`.
    onnx : path, (path, output) or (path, output, fixed), optional
        The file that the network came from, and how (as of `lipyomo.load`): onnxruntime then
        confirms every example.
    progress : callable, optional
        Called with every row as it is decided.
    ladder : iterable of str, optional
        Deprecated: `methods`.
    weights : array_like, shape (d,), or float, optional
        Perturbations s are measured by ``|s / weights|`` in the norm: for inputs in units of their
        own.

    Returns
    -------
    RobustnessReport

    Raises
    ------
    LipyomoError
        If data and network do not fit together, an argument is wrong, or the solver cannot be used.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])  # two classes: x > 0, x < 0
    >>> report = lipyomo.certify_robustness(network, [[0.5], [-0.1]], radius=0.2, workers=1)
    >>> [(str(row.verdict), round(row.certified_radius, 2)) for row in report.rows]
    [('robust', 0.5), ('not robust', 0.1)]
    """
    if ladder is not None:
        deprecated("ladder=", "methods=")
        methods = ladder
    points = data_points(inputs)
    instance(methods, Iterable, "methods", LipyomoError, "a sequence of names")
    settings = PointSettings(
        radius, time_limit, with_exact(methods, exact), radii, seed, solver, exact
    )
    classifier = Classifier(network, norm, clip, weights)
    task = RobustnessTask(classifier, settings, onnx)
    found = []
    for row in task.run(data_rows(points, labels), workers, executor, dask):
        found.append(row)
        if progress is not None:
            progress(row)
    return RobustnessReport(radius, tuple(sorted(found, key=lambda row: row.index)))


def data_rows(points: FloatArray, labels: npt.ArrayLike | None) -> list[Job]:
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
    return [(k, x, float(y)) for k, (x, y) in enumerate(zip(points, given, strict=True))]


class RobustnessTask(Task[Job, RobustnessRow]):
    """The classifier and what is asked of its points; with an ONNX file, examples are confirmed."""

    def __init__(
        self, classifier: Classifier, settings: PointSettings, onnx: OnnxSource | None = None
    ) -> None:
        self.classifier, self.settings = classifier, settings
        self._values = None if onnx is None else RuntimeValues(onnx, classifier.network.input_dim)
        _check_smooth(classifier, settings)
        if settings.solver != "auto":  # a solver that cannot be used is no matter of single rows
            from lipyomo.solvers.registry import get_solver

            get_solver(settings.solver)

    def blank(self, job: Job) -> RobustnessRow:
        """The row of a job of which nothing is known."""
        return RobustnessRow(job[0])

    def decide(self, job: Job) -> RobustnessRow:
        """Decide one point."""
        index, x, label = job
        check = None if self._values is None else partial(runtime_class, self._values)
        return certify_point(self.classifier, x, label, self.settings, index, check)


def with_exact(methods: Iterable[str], exact: bool) -> tuple[str, ...]:
    """The methods, with ``exact`` among them if it is asked for."""
    names = tuple(methods)
    return (*names, "exact") if exact and "exact" not in names else names


def _check_smooth(classifier: Classifier, settings: PointSettings) -> None:
    """Raise if the network has smooth units, and what is asked for does not take them."""
    network = classifier.network
    if not network.smooth:
        return
    by_solver = settings.solver != "auto"
    for name in settings.methods:
        refused = name == "exact" and (by_solver or isinstance(classifier.metric, Polyhedral))
        asked = refused and (settings.close or settings.methods != METHODS)
        if asked or (name in bounding_methods() and not get_method(name).smooth):
            what = f"method {name}"
            if asked:
                what += " with a solver" if by_solver else " in the metric of a dual ball"
            raise LipyomoError(refuses_smooth(what, network))


def runtime_class(values: RuntimeValues, point: FloatArray) -> int:
    """The class by onnxruntime."""
    found = values(point)
    return int(found[0] > 0) if found.size == 1 else int(np.argmax(found))
