"""The decision about one point: robust, not robust, misclassified or open; and its radius.

x with class i is robust in the ball of radius r if every margin ``f_i - f_j`` stays positive there.
The methods, cheapest first:

``global``
    ``r < 1 / L`` with L the scaled constant of all margins (`Classifier.problem`) over all valid
    inputs.
``margins``
    lower bounds of the margins over the ball by linear relaxation.
any method with an upper bound, such as ``crown`` or ``bnb``
    ``r < 1 / L`` with L over the ball.  ``bnb`` stops as soon as this is decided.  The constant of
    a ball is valid for every smaller one.
``exact``
    branch and bound on the distance to the nearest input of another class (`radius.py`); for smooth
    networks, not in the metric of a dual ball.  If a solver is given, the least margin over the
    ball by the forward blocks and that solver: an example that it finds refutes robustness, and its
    dual bound certifies it, either proved by branch and bound or relying on the solver.

An adversarial example found by search refutes robustness; otherwise the point is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile

import numpy as np

from lipyomo.analyses.api import bound_until
from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.analyses.certification.data import ReportRow
from lipyomo.analyses.certification.exact import least_margin, proves_positive
from lipyomo.analyses.certification.metric import Polyhedral
from lipyomo.analyses.certification.nearest import (
    DOUBLINGS,
    Example,
    farthest,
    find_example,
    pulled,
    smallest_perturbation,
)
from lipyomo.base.arguments import instance, positive, whole_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.methods.registry import bounding_methods
from lipyomo.problems.domains import Box
from lipyomo.problems.run import PROVED
from lipyomo.problems.settings import Work, WorkKeywords

PRECISION = 1e-3
"""The relative width at which the bisection of a radius stops."""
RADIUS_NODES = 32
"""The number of nodes of a search for a radius that need not be exact; more narrow its interval."""

METHODS = ("global", "margins", "crown", "exact", "bnb")

Check = Callable[[FloatArray], int]
"""Returns the class of a point by a second evaluation (onnxruntime)."""


class RobustnessVerdict(StrEnum):
    """The decision about a point at the given radius."""

    ROBUST = "robust"
    NOT_ROBUST = "not robust"
    MISCLASSIFIED = "misclassified"
    OPEN = "open"


class PointKeywords(WorkKeywords, total=False):
    """Fields of `PointSettings` as keywords, except the radius."""

    methods: Iterable[str]
    exact: bool
    radii: bool
    seed: int
    solver: str


@dataclass(frozen=True)
class PointSettings(Work):
    """Settings of the decision about a point.

    Attributes
    ----------
    radius : float
        The radius R of the verdict.
    time_limit : float
        Seconds for each point.
    methods : tuple of str
        The methods that certify, cheapest first; see the module.
    exact : bool
        Whether the radius is computed exactly, by ``exact`` among the methods: the certified radius
        and that of the nearest example differ by at most a millionth, if there is time.
    radii : bool
        Whether to search for the certified radius (else it is R or 0), and for examples beyond R.
    seed : int
    solver : str
        The solver of ``exact``; ``auto`` for none.
    """

    radius: float
    time_limit: float = field(default=10.0, kw_only=True)
    methods: tuple[str, ...] = METHODS
    exact: bool = False
    radii: bool = True
    seed: int = 0
    solver: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        instance(self.methods, Iterable, "methods", LipyomoError, "a sequence of names")
        names = tuple(self.methods)
        if self.exact and "exact" not in names:
            names = (*names, "exact")
        object.__setattr__(self, "methods", names)
        if not math.isfinite(positive(self.radius, "the radius", LipyomoError)):
            raise LipyomoError("the radius must be finite")
        whole_number(self.seed, "the seed", LipyomoError)
        known = ("global", "margins", "exact", *bounding_methods())
        for name in names:
            if name not in known:
                raise LipyomoError(f"'{name}' certifies nothing.  Remedy: {', '.join(known)}")


def takes_exact(classifier: Classifier, settings: PointSettings) -> bool:
    """Return whether ``exact`` is possible; see the module."""
    searches = settings.solver == "auto" and not isinstance(classifier.metric, Polyhedral)
    return searches or not classifier.network.smooth


@dataclass(frozen=True)
class RobustnessRow(ReportRow):
    """The result for one point.

    Attributes
    ----------
    predicted : int or None
        The predicted class; None if the row could not be used.
    label : int or None
        The given class, or else the predicted one.
    margin : float or None
        The least margin of the predicted class at the point.
    radius : float or None
        The radius of the verdict.
    certified_radius : float
        No valid input within this radius has another class.
    adversarial_radius : float
        The distance to the nearest input of another class that was found; infinite if none was.
    example : list of float or None
        This input.
    method : str
        The method that decided.
    basis : str or None
        The basis of a positive certified radius: ``proved``, or a solver with its tolerance.
    """

    verdicts = RobustnessVerdict

    predicted: int | None = None
    label: int | None = None
    margin: float | None = None
    radius: float | None = None
    certified_radius: float = 0.0
    adversarial_radius: float = math.inf
    example: list[float] | None = None
    method: str = ""
    basis: str | None = None


@with_one_blas_thread
def certify_point(
    classifier: Classifier,
    x: FloatArray,
    label: float | None,
    settings: PointSettings,
    index: int = 0,
    check: Check | None = None,
) -> RobustnessRow:
    """Decide one point.

    Parameters
    ----------
    classifier : Classifier
    x : array_like, shape (d,)
    label : float or None
        Its class, a whole number; the predicted one if None.
    settings : PointSettings
    index : int, optional
        The index of the row.
    check : callable, optional
        Another evaluation of the network, which has to agree that an example has another class.

    Returns
    -------
    RobustnessRow

    Raises
    ------
    DataError
        If the row cannot be used.
    """
    clock = Clock(settings.time_limit)
    point = classifier.check(x, label)
    predicted = int(classifier.predict(point[None])[0])
    row = RobustnessRow(index, predicted, predicted if label is None else int(label))
    margin = float(classifier.margins(point, predicted).min())
    row = replace(row, margin=margin, radius=settings.radius)
    if row.label != predicted:
        row = replace(
            row, verdict=RobustnessVerdict.MISCLASSIFIED, adversarial_radius=0.0, method="forward"
        )
    else:
        row = _Decision(classifier, point, predicted, settings, clock, check).decide(row)
    return replace(row, seconds=clock.seconds)


class _Decision:
    """The state of the decision about one point."""

    def __init__(
        self,
        classifier: Classifier,
        x: FloatArray,
        label: int,
        settings: PointSettings,
        clock: Clock,
        check: Check | None,
    ) -> None:
        self.classifier, self.x, self.label, self.settings = classifier, x, label, settings
        self.clock, self.check = clock, check
        self.least = classifier.least_margins(Box(x, x), label)
        # over balls around x, for margins divided by their lower bounds there
        self.constants: list[tuple[float, float, str]] = []  # (radius, constant, method)
        self.example: Example | None = None
        self.inner = 0.0  # certified by the search of distances
        self.methods = settings.methods
        if not takes_exact(classifier, settings):
            self.methods = tuple(name for name in settings.methods if name != "exact")
        self.searches = "exact" in self.methods

    def decide(self, row: RobustnessRow) -> RobustnessRow:
        """Decide as much as possible in time."""
        settings, radius = self.settings, self.settings.radius
        if (self.least <= 0).any():
            return replace(row, verdict=RobustnessVerdict.OPEN, method="rounding")
        rng = np.random.default_rng([settings.seed, row.index])
        quick = tuple(takewhile(("global", "margins").__contains__, self.methods))
        certified, method = self._certify(radius, quick)
        if settings.radii or not certified:
            self._take(find_example(self.classifier, self.x, self.label, radius, rng, self.clock))
        if not certified:
            certified, method = self._certify(radius, self.methods[len(quick) :])
        basis: str | None = PROVED
        if not certified and self._by_solver and not self._refuted(radius):
            basis, method = self._by_mip(radius), "exact"
            certified = basis is not None
        verdict = RobustnessVerdict.ROBUST if certified else RobustnessVerdict.OPEN
        if not certified and self._refuted(radius):
            verdict, method = RobustnessVerdict.NOT_ROBUST, method or "attack"
        inner = known = radius if certified else 0.0
        if settings.radii:
            inner = self._largest(known)
        if inner > known:  # larger radii are always proved
            basis = PROVED
        outer = math.inf if self.example is None else self.example.distance
        return replace(
            row,
            certified_radius=inner,
            adversarial_radius=outer,
            example=None if self.example is None else self.example.point.tolist(),
            verdict=verdict,
            method=method if verdict is not RobustnessVerdict.OPEN else "",
            basis=basis if inner > 0 else None,
        )

    @property
    def _by_solver(self) -> bool:
        """Whether a solver decides if the cheaper methods do not."""
        return "exact" in self.methods and self.settings.solver != "auto"

    def _refuted(self, radius: float) -> bool:
        return self.example is not None and self.example.distance <= radius

    def _take(self, example: Example | None) -> None:
        """Store an example if it is the nearest and the other evaluation agrees."""
        if example is None or not (
            self.example is None or example.distance < self.example.distance
        ):
            return
        agreed = self._agreed(example)
        if agreed is not None:
            self.example = agreed

    def _by_search(self, radius: float | None) -> float:
        """Return the radius certified by the search for the nearest example, at most `radius`.

        If it is None, there is no such limit.  Examples are confirmed in exact arithmetic, without
        rounding; `check` has to find another class there or slightly farther along the same line.
        """
        most, settings = radius, self.settings
        if most is None:
            far = 2.0**DOUBLINGS * settings.radius
            most = farthest(self.classifier, self.x, far)
            if self.example is None and far < most:  # the search takes long without one
                rng = np.random.default_rng(settings.seed)
                self._take(find_example(self.classifier, self.x, self.label, far, rng, self.clock))
        few = RADIUS_NODES if radius is None and not settings.exact else None
        certified = max(self.inner, min(self._safe, most))
        inner, example = smallest_perturbation(
            self.classifier, self.x, self.label, most, self.clock, certified, self.example, few
        )
        if example is not None and example is not self.example and self._agreed(example):
            self.example = example
        self.inner = max(self.inner, inner)
        return self.inner

    def _agreed(self, example: Example) -> Example | None:
        """Return the example, moved on until `check` agrees; None if it never does."""
        if self.check is None:
            return example
        step = example.point - self.x
        for push in (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
            point = np.clip(
                example.point + push * step, self.classifier.clip.lower, self.classifier.clip.upper
            )
            mine = int(self.classifier.predict(point[None])[0])
            if mine != self.label and self.check(point) != self.label:
                distance = float(self.classifier.distance(self.x, point[None])[0])
                return Example(point, distance, mine)
        return None

    # -- certificates --------------------------------------------------------------------------

    def _certify(self, radius: float, names: tuple[str, ...]) -> tuple[bool, str]:
        """Try one method after the other for one radius."""
        for name in names:
            if self._refuted(radius):
                continue
            if name == "exact":
                if self._by_solver or self.clock.expired:
                    continue
                if self._by_search(radius) >= radius:
                    return True, name
                if self._refuted(radius):
                    return False, name
            elif name == "global":
                if any(name == known for _, _, known in self.constants):
                    continue
                ratios = self.classifier.global_constants(self.label) / self.least
                constant = float(ratios.max()) * (1.0 + 2.0**-50)
                self.constants.append((math.inf, constant, name))
            elif name == "margins":
                if self._by_margins(radius):
                    return True, name
            elif not self.clock.expired:
                self._bound(name, radius)
            found = self._certifying(radius)
            if found is not None:
                return True, found
        return False, ""

    def _certifying(self, radius: float) -> str | None:
        """Return the method whose constant certifies `radius`, if there is one."""
        for ball, constant, name in self.constants:
            if radius <= ball and radius * constant * (1.0 + 2.0**-50) < 1.0:
                return name
        return None

    @property
    def _safe(self) -> float:
        """The largest radius that constants certify."""
        radii = [0.0]
        for ball, constant, _ in self.constants:
            safe = math.inf if constant == 0 else (1.0 - 2.0**-50) / constant
            radii.append(min(ball, float(np.nextafter(safe, 0.0))))
        return max(radii)

    def _by_margins(self, radius: float) -> bool:
        domain = self.classifier.ball(self.x, radius)
        return bool((self.classifier.least_margins(domain, self.label) > 0).all())

    def _bound(self, method: str, radius: float) -> None:
        """Bound the scaled constant over the ball; stop as soon as this is decided."""
        problem = self.classifier.problem(self.x, radius, self.label, self.least)
        goal = 1.0 / radius
        result = bound_until(
            problem, method, goal * (1.0 - 2.0**-50), goal, max(self.clock.left, 1e-3)
        )
        self.constants.append((radius, result.upper, method))

    def _by_mip(self, radius: float) -> str | None:
        """Return the basis of a certificate by the forward blocks; None if there is none."""
        found = []
        for rival in range(self.classifier.classes - 1):
            if self.clock.expired:
                return None
            domain = self.classifier.ball(self.x, radius)
            least = least_margin(
                self.classifier, domain, self.label, rival, self.settings.solver, self.clock.left
            )
            point = least.point
            if point is not None and self.classifier.predict(point[None])[0] != self.label:
                self._take(pulled(self.classifier, self.x, self.label, point[None]))
                if self._refuted(radius):
                    return None
            if not least.bound > 0:
                return None
            found.append(least)
        claimed = np.array([least.bound for least in found])
        took = sum(least.seconds for least in found)
        args = self.classifier, self.x, radius, self.label, claimed, self.least, took
        if proves_positive(*args):
            return PROVED
        return None if any(least.doubt for least in found) else found[0].basis

    # -- the radius ----------------------------------------------------------------------------

    def _largest(self, known: float) -> float:
        """Return the largest certified radius that is found, at least the known one."""
        if not self.searches:
            return self._bisected(known)
        if self.classifier.network.smooth:  # a better start for boxes of many inputs
            self.inner = max(self.inner, self._bisected(known))
        return max(known, self._by_search(None))

    def _bisected(self, inner: float) -> float:
        """Return the largest radius found by bisection with bounds of constants or margins.

        Only bounds of margins are used if they are among the methods, as they are the cheapest.
        """
        names = tuple(name for name in self.methods if name != "exact")
        names = ("margins",) if "margins" in names else names
        inner = max(inner, self._safe)
        if not names:
            return inner
        high, most = self.settings.radius, 2.0**DOUBLINGS * self.settings.radius
        while (
            self._within(high) and high <= most and (high <= inner or self._certify(high, names)[0])
        ):
            inner = max(inner, high)
            high *= 2.0
        if self.example is not None:
            high = min(high, self.example.distance)
        while high - inner > PRECISION * high and not self.clock.expired:
            middle = 0.5 * (inner + high)
            if self._certify(middle, names)[0]:
                inner = middle
            else:
                inner, high = max(inner, self._safe), middle
        return inner

    def _within(self, radius: float) -> bool:
        """Return whether a larger radius may still be certified, and there is time to try."""
        return not self.clock.expired and (self.example is None or radius < self.example.distance)
