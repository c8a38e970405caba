"""Reports on whole data sets: decided rows, a summary, and certified accuracy over the radius."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.analyses.certification.columns import Columns
from lipyomo.analyses.certification.data import (
    Clip,
    OnnxSource,
    Report,
    RowTask,
    RuntimeValues,
)
from lipyomo.analyses.certification.point import (
    METHODS,
    PointKeywords,
    PointSettings,
    RobustnessRow,
    RobustnessVerdict,
    certify_point,
    takes_exact,
)
from lipyomo.analyses.certification.tables import class_labels, named_labels, read_inputs
from lipyomo.analyses.quick import read_network
from lipyomo.base.arguments import positive, real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import LipyomoError
from lipyomo.methods.registry import bounding_methods, get_method, use_smooth_methods
from lipyomo.networks.network import check_two_slopes
from lipyomo.problems.norms import OutputNorm
from lipyomo.problems.run import PROVED
from lipyomo.problems.settings import changed, takes

if TYPE_CHECKING:
    from lipyomo.formats.onnx.arrange import Fixed, Output

Job = tuple[int, FloatArray, float | None, float]


@dataclass(frozen=True)
class RobustnessReport(Report):
    """The rows of a data set, and their summary.

    Attributes
    ----------
    radius : float or None
        None if each row has its own.
    rows : tuple of RobustnessRow
        In the order of the data.
    decision : str
        The rule that decides, such as ``class 1 if y > 0.5``.
    columns : Columns or None
        How the columns of a table were interpreted.
    """

    radius: float | None
    rows: tuple[RobustnessRow, ...]
    decision: str = ""
    columns: Columns | None = None

    @property
    def radii(self) -> tuple[float, ...]:
        """The different radii of the verdicts, in ascending order."""
        if self.radius is not None:
            return (self.radius,)
        return tuple(sorted({row.radius for row in self.rows if row.radius is not None}))

    @property
    def used(self) -> int:
        """The number of rows that could be used."""
        return sum(row.error is None for row in self.rows)

    @property
    def decided(self) -> float:
        """The share of usable rows that are not open; zero if there are none."""
        return (self.used - self.count(RobustnessVerdict.OPEN)) / max(self.used, 1)

    def certified_accuracy(self, radii: npt.ArrayLike) -> FloatArray:
        """Return shares of rows that are correctly classified and certified within each radius."""
        right = [r for r in self.rows if r.verdict not in (None, RobustnessVerdict.MISCLASSIFIED)]
        inner = np.array([row.certified_radius for row in right])
        points = np.asarray(radii, dtype=np.float64).reshape(-1, 1)
        return np.asarray((inner[None] >= points).sum(axis=1) / max(self.used, 1))

    def attacked_accuracy(self, radii: npt.ArrayLike) -> FloatArray:
        """Return shares of rows for which no adversarial example within each radius is known."""
        outer = np.array([row.adversarial_radius for row in self.rows if row.error is None])
        points = np.asarray(radii, dtype=np.float64).reshape(-1, 1)
        return np.asarray((outer[None] > points).sum(axis=1) / max(self.used, 1))

    def summary(self) -> dict[str, Any]:
        """Return counts and shares, as plain data."""
        seconds = [row.seconds for row in self.rows if row.error is None]
        right = self.used - self.count(RobustnessVerdict.MISCLASSIFIED)
        return {
            "radius": self.radius,
            "decision": self.decision,
            "rows": len(self.rows),
            "unusable": len(self.rows) - self.used,
            "why unusable": self.reasons(),
            "robust": self.count(RobustnessVerdict.ROBUST),
            "not robust": self.count(RobustnessVerdict.NOT_ROBUST),
            "open": self.count(RobustnessVerdict.OPEN),
            "misclassified": self.count(RobustnessVerdict.MISCLASSIFIED),
            "clean accuracy": right / max(self.used, 1),
            "certified accuracy": self.count(RobustnessVerdict.ROBUST) / max(self.used, 1),
            "decided": self.decided,
            "on a solver's word": sum(row.basis not in (None, PROVED) for row in self.rows),
            "decided by": dict(Counter(row.method for row in self.rows if row.method)),
            "median seconds": float(np.median(seconds)) if seconds else None,
        }

    def __repr__(self) -> str:
        found, radii = self.summary(), self.radii
        at = f"radius {radii[0]:g}" if len(radii) == 1 else "the radii of the rows"
        return (
            f"RobustnessReport: {found['robust']} of {self.used} robust at {at}, "
            f"{found['not robust']} not robust, {found['misclassified']} misclassified, "
            f"{found['open']} open"
        )


@takes(PointKeywords)
def certify_robustness(
    network: Any,
    inputs: Any,
    labels: Any = None,
    radius: npt.ArrayLike = 0.0,
    norm: str | OutputNorm = "linf",
    clip: Clip | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    threshold: float | None = None,
    onnx: OnnxSource | None = None,
    output: Output = None,
    fixed: Fixed | None = None,
    progress: Callable[[RobustnessRow], None] | None = None,
    **settings: Unpack[PointKeywords],
) -> RobustnessReport:
    """Decide which points of a data set keep their class under every small perturbation.

    Parameters
    ----------
    network : Network, str, path-like, torch.nn.Module or scikit-learn estimator
        A classifier with one output for each class, or a single one that is above a threshold for
        class 1.  A path to an ONNX file may be given; then examples are confirmed by onnxruntime.
    inputs : array_like, shape (n, d) or (n, ...), or a frame
        The columns of a frame are matched with the network's `input_names`.  If it has none, all
        columns except that of the labels are inputs, and there must be as many.
    labels : array_like of int, shape (n,) or (n, classes), or name of a column, optional
        Indices of classes, or one-hot rows; for an estimator, its own classes.  The default is a
        column called ``label``, ``target``, ``class`` or ``y`` in a frame, else the predicted
        classes.
    radius : float or array_like, shape (n,)
        The radius R of the verdicts, or one for each row, in units of the network's inputs; for a
        pipeline, those before its scaler (`weights` gives every input its own unit).
    norm : {'linf', 'l2', 'l1'} or OutputNorm, optional
        The norm of perturbations; a polyhedral (fair) metric is a `LinearOutput` with the vertices
        of its dual ball.
    clip : (lower, upper), optional
        The box of valid inputs.
    weights : array_like, shape (d,), or float, optional
        Perturbations s are measured by ``|s / weights|`` in the norm, for inputs with different
        units.
    threshold : float, optional
        The class is 1 if a single output is above it.  The default is 0.5 if the network ends with
        a sigmoid (its logit is compared with 0), or its output is in [0, 1] for all inputs.
    onnx : path, (path, output) or (path, output, fixed), optional
        The file that the network was loaded from, and how (see `lipyomo.load`); then every example
        is confirmed by onnxruntime.
    output, fixed : optional
        Options for an ONNX file, see `lipyomo.load`.
    progress : callable, optional
        Called with every row as it is decided.
    **settings
        Fields of `PointSettings`: seconds for each point (`time_limit`, 10 by default), where
        points are decided (`workers`, `executor` or `dask`, see `lipyomo.sweep`), and the `methods`
        that certify, cheapest first: ``global``, ``margins``, and those with an upper bound.  With
        `exact`, the smallest adversarial perturbation itself is found, to a relative 1e-6.  If a
        `solver` is given, a MIP over the forward blocks decides the remaining points instead;
        branch and bound checks its claims, and the basis of a row says whether this succeeded.
        With `radii` (the default), the certified radius of each point is searched as well, and
        examples beyond R.

    Returns
    -------
    RobustnessReport

    Raises
    ------
    LipyomoError
        If the data does not match the network, an argument is wrong, or the solver cannot be used;
        also if the network has one output and is not known to be a classifier.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]]])  # two classes: x > 0, x < 0
    >>> report = lipyomo.certify_robustness(network, [[0.5], [-0.1]], radius=0.2, workers=1)
    >>> [(str(row.verdict), round(row.certified_radius, 2)) for row in report.rows]
    [('robust', 0.5), ('not robust', 0.1)]
    """
    given = read_network(network, inputs, output, fixed)
    if onnx is None:
        onnx = given.onnx
    data = read_inputs(inputs, labels, given.network.input_names, given.network.input_dim)
    classes = data.labels
    if given.classes is not None:
        classes = named_labels(classes, given.classes)
        if threshold is None and given.network.output_dim == 1 and len(given.classes) == 2:
            threshold = 0.0  # its logit
    sizes = read_radii(radius, len(data.inputs))
    classifier = Classifier(given.network, norm, clip, weights, threshold)
    jobs = data_rows(classifier, data.inputs, classes, sizes, threshold is not None)
    largest = PointSettings(float(sizes.max(initial=0.0)))
    task = RobustnessTask(classifier, changed(PointSettings, largest, settings), onnx)
    found = []
    for row in task.run(jobs):
        found.append(row)
        if progress is not None:
            progress(row)
    rows = tuple(sorted(found, key=lambda row: row.index))
    one = None if np.ndim(radius) else task.settings.radius
    return RobustnessReport(one, rows, classifier.decision, data.columns)


def read_radii(radius: npt.ArrayLike, count: int) -> FloatArray:
    """Return the radius of each row, shape (n,).

    Raises
    ------
    LipyomoError
        If it is not one positive number, or one for each row.
    """
    found = real_numbers(radius, "the radius", LipyomoError)
    if found.ndim == 0:
        return np.full(count, positive(float(found), "the radius", LipyomoError))
    if found.size != count:
        raise LipyomoError(
            f"{found.size} radii for {count} rows.  Remedy: give one number, or one for each row; "
            "sizes that differ between inputs are weights (weights=, --weights) of radius 1"
        )
    if not (np.isfinite(found) & (found > 0)).all():
        raise LipyomoError("the radii must be positive")
    return found.reshape(-1)


def data_rows(
    classifier: Classifier,
    points: FloatArray,
    labels: npt.ArrayLike | None,
    radii: FloatArray,
    chosen: bool = False,
) -> list[Job]:
    """Return (index, x, label, radius) for every row.

    Parameters
    ----------
    classifier : Classifier
    points : ndarray, shape (n, d)
    labels : array_like, shape (n,) or (n, classes), or None
    radii : ndarray, shape (n,)
    chosen : bool, optional
        Whether the threshold of a single output was given explicitly.

    Raises
    ------
    LipyomoError
        If there are not as many labels as points, they are not indices of classes, or the network
        is a regressor.
    """
    known = class_labels(labels, len(points), classifier.classes)
    if classifier.threshold is not None:
        _check_classes(classifier, known, chosen)
    given = [None] * len(points) if known is None else known.tolist()
    return list(zip(range(len(points)), points, given, radii.tolist(), strict=True))


def _check_classes(classifier: Classifier, labels: FloatArray | None, chosen: bool) -> None:
    """Reject a network with one output that is not known to be a classifier of two classes."""
    wrong = None
    if labels is not None:
        known = labels[~np.isnan(labels)]
        others = known[(known != 0) & (known != 1)]
        if others.size:
            wrong = f"its labels are not 0 and 1 (one is {others[0]:g})"
        elif not known.size:
            wrong = "no row has a label"
    elif not (chosen or classifier.is_probability):
        wrong = "there are no labels 0 and 1"
    if wrong is None:
        return
    if chosen or classifier.is_probability:
        raise LipyomoError(
            f"the network has one output, so that there are two classes, and {wrong}.  Remedy: "
            "write labels as 0 and 1, or leave them out (--label-column none)"
        )
    raise LipyomoError(
        f"the network has one output, and {wrong}: it is a regressor, which has no classes to "
        "certify.  Remedy: sweep, range, jacobian or monotone (in Python lipschitz, value_range, "
        "jacobian_ranges or check_monotone) tell how a value moves; if class 1 is y > T, say so by "
        "--threshold T (threshold=T)"
    )


class RobustnessTask(RowTask[Job, RobustnessRow]):
    """A classifier and the settings for its points; with an ONNX file, examples are confirmed."""

    settings: PointSettings

    def __init__(
        self, classifier: Classifier, settings: PointSettings, onnx: OnnxSource | None = None
    ) -> None:
        self.classifier, self.settings = classifier, settings
        self._values = None if onnx is None else RuntimeValues(onnx, classifier.network.input_dim)
        _check_smooth(classifier, settings)
        if settings.solver != "auto":  # fail at once if the solver cannot be used
            from lipyomo.solvers.registry import get_solver

            get_solver(settings.solver)

    def blank(self, job: Job) -> RobustnessRow:
        """Return the row of a job without results."""
        return RobustnessRow(job[0])

    def decide(self, job: Job) -> RobustnessRow:
        """Decide one point."""
        index, x, label, radius = job
        values, classifier = self._values, self.classifier
        check = None
        if values is not None:

            def check(point: FloatArray) -> int:
                """Return the class by onnxruntime."""
                return classifier.class_of_outputs(values(point))

        settings = replace(self.settings, radius=radius)
        return certify_point(classifier, x, label, settings, index, check)


def _check_smooth(classifier: Classifier, settings: PointSettings) -> None:
    """Raise an error if the network has smooth units, and the settings do not support them."""
    by_solver = settings.solver != "auto"
    for name in settings.methods:
        refused = name == "exact" and not takes_exact(classifier, settings)
        asked = refused and (settings.exact or settings.methods != METHODS)
        if asked or (name in bounding_methods() and not get_method(name).smooth):
            what = f"method {name}"
            if asked:
                what += " with a solver" if by_solver else " in the metric of a dual ball"
            check_two_slopes(classifier.network, what, use_smooth_methods(), LipyomoError)
