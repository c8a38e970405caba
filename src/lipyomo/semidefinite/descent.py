"""Lowering a semidefinite bound over its multipliers, whatever the kernel.

Any multipliers with C positive definite bound the gradient, so that every iterate is an answer and
the method may be stopped at any moment.

- `refine` starts from multipliers that a parent node inherited: next to the central path, a few
  Newton steps.
- `Descent` starts in closed form.  Multipliers are wrong by factors then, which a quasi-Newton
  method in their logarithms mends at a fifth of the cost of Newton steps; when it gains little,
  they follow the central path.  At a central point the step to a smaller mu is predicted with the
  Hessian that is at hand (the path is nearly straight in mu), 85 % of the way to the boundary at
  most.  Between central points Newton steps are cut short of the boundary; because one direction
  would then be cut again and again until C is as good as singular, the inputs' multipliers are
  stretched after a cut, as far as that helps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.semidefinite.kernel import Factor, Kernel, State, bound_of
from lipyomo.semidefinite.quasi_newton import Memory

_ARMIJO = 0.1
_REACH = 1.1
_MAX_HALVINGS = 25

WARM_CENTRED = 0.3
"""Squared Newton decrement (over n mu) up to which mu is lowered after a warm start: few steps are
wanted then, and the parent was central."""

ROOT_ACCURACY = 0.01
"""A cold start goes on to this accuracy though its target is out of reach: its multipliers are
inherited by a whole tree."""

STRETCH = 1.05
"""Inherited zeta are multiplied by this before the first step."""

SHORTEN = 0.35
"""Factor of the line search; one half would often end next to the boundary."""

FALL = 0.2
"""Factor by which mu falls."""

_FIRST_MU = 0.1

LITTLE = 0.01
"""Relative fall of the barrier function in a quasi-Newton step after which Newton's method goes on:
784-256-256-256-10 at radius 8/255 has 383 after 0.08 CPU seconds and 358 after 0.63 (one output,
4-core x86-64 machine), where Newton steps alone have 393 after 0.33 and 358 after 1.04."""

_LARGE = 1e150
"""Largest multiplier of a quasi-Newton step."""

_TRIES = 8
"""Most lengths of a quasi-Newton step that are tried."""

_CENTRAL = 1.0
"""Squared decrement (over mu) of points that count as central.  With three times as much, steps are
fewer by a third, but predictions drift off the path and end up to 0.5 % above the optimum."""

_TO_BOUNDARY, _PREDICTED = 0.95, 0.85
_LEAST_FALL = 0.02
_REMEMBERED = 0.8
"""Share of the longest step's time that the next one is expected to take at least."""

_STRETCHES = (0.003, 0.01, 0.03, 0.1, 0.3)


@dataclass
class _Point:
    """Multipliers with all that one factorisation gives."""

    y: FloatArray
    factor: Factor
    x: FloatArray
    tau: float
    quarter: float
    logdet: float | None = None

    @property
    def value(self) -> float:
        return bound_of(self.tau, self.quarter)

    def merit(self, kernel: Kernel, mu: float) -> float:
        """The barrier function."""
        if self.logdet is None:
            self.logdet = kernel.logdet(self.factor, self.y)
        return self.tau + self.quarter - mu * self.logdet


def _at(kernel: Kernel, y: FloatArray) -> _Point | None:
    if not y[: y.size - kernel.free].min() > 0:
        return None
    factor = kernel.factor(y)
    return None if factor is None else _Point(y, factor, *kernel.terms(factor, y))


def _state(kernel: Kernel, point: _Point, iterations: int) -> State:
    state = kernel.state(point.factor, point.y, point.tau, point.quarter, point.x)
    state.iterations = iterations
    return state


def _search(
    kernel: Kernel,
    point: _Point,
    along: Callable[[float], FloatArray],
    decrement: float,
    mu: float,
    length: float,
    shorten: float,
    tries: int = _MAX_HALVINGS,
) -> tuple[_Point, float] | None:
    """Shorten a step, which ends in ``along(length)``, until the barrier function falls enough."""
    before = point.merit(kernel, mu)
    slack = 1e-12 * abs(before)
    for _ in range(tries):
        found = _at(kernel, along(length))
        enough = before - _ARMIJO * length * decrement + slack
        if found is not None and found.merit(kernel, mu) <= enough:
            return found, length
        length *= shorten
    return None


def _straight(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    return lambda length: np.asarray(point.y + length * step)


def _bent(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    """A step in the multipliers' logarithms; where squares would overflow there is no point."""

    def along(length: float) -> FloatArray:
        with np.errstate(over="ignore"):
            found = np.asarray(point.y * np.exp(length * step))
        return found if found.max() < _LARGE else np.full_like(found, np.nan)

    return along


def _stretched(kernel: Kernel, y: FloatArray, factor: float) -> FloatArray:
    """Multipliers with the inputs' part enlarged, which only makes C larger."""
    longer = y.copy()
    longer[kernel.outputs : kernel.outputs + kernel.inputs] *= factor
    return longer


def minimise(
    kernel: Kernel,
    warm: FloatArray | None = None,
    target: float | None = None,
    max_iterations: int = 60,
    tolerance: float = 1e-3,
    stop: Callable[[], bool] | None = None,
) -> State | None:
    """Lower the bound until it meets `target`, cannot meet it, or is optimal.

    Parameters
    ----------
    kernel : Kernel
    warm : ndarray, optional
        Multipliers of the parent.
    target : float, optional
        A bound at or below it prunes the node: nothing lower is needed.  The search also ends
        when the centred barrier shows that the target is out of reach.
    max_iterations : int, optional
        Most Newton steps from inherited multipliers.
    tolerance : float, optional
        Relative distance to the optimum at which to stop.
    stop : callable, optional
        Polled before each step.

    Returns
    -------
    State or None
        None if no definite C was found.
    """
    stop = stop or (lambda: False)
    if warm is not None:
        for stretch in (1.0, 1.1):
            point = _at(kernel, _stretched(kernel, warm, stretch))
            if point is not None:
                return refine(kernel, point, target, max_iterations, tolerance, stop)
    descent = Descent(kernel, tolerance, stop=stop)
    descent.run(target, stop)
    return descent.best


def refine(
    kernel: Kernel,
    point: _Point,
    target: float | None,
    max_iterations: int,
    tolerance: float,
    stop: Callable[[], bool],
) -> State:
    """Newton's method from a point that is nearly central."""
    start = _state(kernel, point, 0)
    met = target is not None and start.value <= target
    if met or point.quarter <= 0 or max_iterations < 1:
        return start
    # next to the boundary Newton steps crawl
    inside = _at(kernel, _stretched(kernel, start.multipliers, STRETCH))
    point = inside or _at(kernel, start.multipliers) or point
    n = kernel.order
    mu = 0.05 * (point.tau + point.quarter) / n
    near = WARM_CENTRED * n
    best, value, iteration = None, start.value, 0
    for _ in range(max_iterations):
        iteration += 1
        if stop():
            break
        system = kernel.system(point.factor, point.y, point.x, mu)
        if system is None:
            break
        step, decrement = system.step(mu)
        along = _straight(point, kernel.expand(step))
        found = _search(kernel, point, along, decrement, mu, 1.0, SHORTEN)
        if found is None:
            break
        point, length = found
        if point.value < value:
            best, value = point, point.value
        if target is not None:
            if value <= target:
                break
            if decrement < 0.5 * mu * n and value - _REACH * mu * n > target:
                break
        centred = decrement < near * mu
        if mu * n < tolerance * value:
            if centred:
                break
        elif centred:
            mu *= FALL
        elif length > 0.9:
            mu *= 0.5
    start.iterations = iteration
    return start if best is None else _state(kernel, best, iteration)


class Descent:
    """The way from a closed-form start along the central path; it can be taken up again.

    Parameters
    ----------
    kernel : Kernel
    tolerance : float, optional
        The descent is done when what is left to gain is less than this share, as the last
        prediction tells: the bound falls at least in proportion to mu.
    most : int, optional
        Most Newton steps.
    stop : callable, optional
        Polled while the start is computed (`done` without an answer if it comes too late), and
        before what a step can do without.
    start : ndarray, optional
        Multipliers to begin with, those of the kernel in closed form by default, or where these are
        not feasible.

    Attributes
    ----------
    best : State or None
        The least bound so far; None if no definite C was found.
    done : bool
        Whether nothing more is to be gained.
    """

    def __init__(
        self,
        kernel: Kernel,
        tolerance: float = 1e-3,
        most: int = 400,
        stop: Callable[[], bool] | None = None,
        start: FloatArray | None = None,
    ) -> None:
        self.kernel, self._tolerance, self._most = kernel, tolerance, most
        self._last, self._fallen = math.inf, 1.0
        self._seconds = 0.0
        self._stop = stop or (lambda: False)
        self._memory: Memory | None = None
        self.best: State | None = None
        self.done = True
        point = None if start is None else _at(kernel, start)
        if point is None:
            y = kernel.start(stop)
            point = None if y is None else _at(kernel, y)
        if point is None:
            return
        best = self.best = _state(kernel, point, 0)
        if point.quarter <= 0:
            return
        y = best.multipliers
        balanced = self._point = _Point(y, best.factor, *kernel.terms(best.factor, y))
        self._mu = _FIRST_MU * (balanced.tau + balanced.quarter) / kernel.order
        self._memory = None if kernel.free else Memory()
        self.done = False

    def extended(self, kernel: Kernel) -> Descent:
        """The same descent with a kernel that has more free multipliers, all zero so far."""
        if self.best is None:
            return self
        start = np.concatenate([self.best.multipliers, np.zeros(kernel.free - self.kernel.free)])
        longer = Descent(kernel, self._tolerance, self._most, self._stop, start)
        if longer.best is None or longer.done:
            return longer
        longer._mu, longer._seconds = self._mu, self._seconds
        longer.best.iterations = self.best.iterations
        return longer

    @property
    def approaching(self) -> bool:
        """Whether the next step is a quasi-Newton step."""
        return self._memory is not None

    @property
    def centred(self) -> bool:
        """Whether a point was central: from there on bounds fall slowly."""
        return self._last < math.inf

    @property
    def seconds(self) -> float:
        """What a step takes that may be a long one, by the last ones of its kind; zero if none."""
        return self._seconds

    @property
    def value(self) -> float:
        """The least bound so far."""
        return math.inf if self.best is None else self.best.value

    def run(
        self,
        target: float | None = None,
        stop: Callable[[], bool] | None = None,
        patient: bool = False,
    ) -> None:
        """Go on until the bound meets `target` or is optimal, or `stop` says so.

        Parameters
        ----------
        target : float, optional
        stop : callable, optional
            Polled before each step.
        patient : bool, optional
            Whether to go on when the target is out of reach.
        """
        while not self.done:
            if target is not None and self.value <= target:
                return
            if target is not None and not patient and self._hopeless(target):
                return
            if stop is not None and stop():
                return
            began, approaching = time.perf_counter(), self.approaching
            self._step()
            took = max(time.perf_counter() - began, _REMEMBERED * self._seconds)
            self._seconds = took if self.approaching == approaching else 0.0

    def _hopeless(self, target: float) -> bool:
        """Whether a central point has shown that the target is out of reach."""
        rest = self._mu * self.kernel.order
        return (
            self._last < math.inf
            and self.value - _REACH * rest > target
            and rest < ROOT_ACCURACY * self.value
        )

    def _step(self) -> None:
        if self._memory is not None:
            self._approach(self._memory)
            return
        assert self.best is not None
        kernel, point, mu = self.kernel, self._point, self._mu
        iteration = self.best.iterations + 1
        system = kernel.system(point.factor, point.y, point.x, mu)
        if system is None or iteration > self._most:
            self.done = True
            return
        step, decrement = system.step(mu)
        found: _Point | None = None
        if decrement < _CENTRAL * mu:
            if self._last - point.value < self._fallen * self._tolerance * point.value:
                self.done = True
                return
            self._last = point.value
            found = self._predicted(system.solve(system.barrier), step)
        if found is None:
            full = kernel.expand(step)
            length = min(1.0, _TO_BOUNDARY * kernel.reach(point.factor, point.y, full))
            along = _straight(point, full)
            searched = _search(kernel, point, along, decrement, mu, length, 0.6)
            if searched is None:
                self.done = True
                return
            found, length = searched
            if length < 0.9:
                found = self._off_boundary(found)
        self._point = found
        if found.value < self.best.value:
            self.best = _state(kernel, found, iteration)
        self.best.iterations = iteration

    def _approach(self, memory: Memory) -> None:
        """A quasi-Newton step in the logarithms of the multipliers."""
        assert self.best is not None
        kernel, point, mu = self.kernel, self._point, self._mu
        slopes = kernel.slopes(point.factor, point.y, point.x, mu)
        direction, length = memory.direction(slopes)
        full = kernel.expand(direction)
        found = _search(
            kernel,
            point,
            _bent(point, full),
            -float(slopes @ direction),
            mu,
            length,
            0.4,
            _TRIES,
        )
        if found is not None:
            self._point, length = found
            memory.moved(length * direction, slopes)
            if self._point.value < self.best.value:
                self.best = _state(kernel, self._point, 0)
        fall = point.merit(kernel, mu) - self._point.merit(kernel, mu)
        if not fall > LITTLE * self._point.value:
            self._memory = None

    def _predicted(self, tangent: FloatArray, step: FloatArray) -> _Point | None:
        """The point on the path's tangent at a smaller mu, which becomes the current one."""
        kernel, mu = self.kernel, self._mu
        centre = _at(kernel, self._point.y + kernel.expand(step))
        if centre is None:
            return None
        along = kernel.expand(mu * tangent)
        reach = _PREDICTED * kernel.reach(centre.factor, centre.y, along)
        share = min(reach, 1.0 - _LEAST_FALL)
        found = _at(kernel, centre.y + share * along)
        if found is None:
            return None
        self._mu, self._fallen = (1.0 - share) * mu, share
        return found

    def _off_boundary(self, point: _Point) -> _Point:
        """Stretch the inputs' multipliers as long as the barrier function falls."""
        merit, best = point.merit(self.kernel, self._mu), point
        for stretch in _STRETCHES:
            if self._stop():
                break
            longer = _at(self.kernel, _stretched(self.kernel, point.y, 1.0 + stretch))
            if longer is None or longer.merit(self.kernel, self._mu) >= merit:
                break
            merit, best = longer.merit(self.kernel, self._mu), longer
        return best
