"""Lowering a semidefinite bound over its multipliers, whatever the kernel.

Any multipliers with C positive definite bound the gradient, so that every iterate is an answer and
the method may be stopped at any moment.

- `refine` starts from multipliers that a parent node inherited: next to the central path, a few
  Newton steps.
- `Descent` starts in closed form.  Multipliers are wrong by factors then, which a quasi-Newton
  method in their logarithms mends at a fifth of the cost of Newton steps; when it gains little,
  they follow the central path.  At a central point the step to a smaller mu is predicted with the
  Hessian that is at hand (the path is nearly straight in mu), nine tenths of the way to the
  boundary at most.  Between central points Newton steps are cut short of the boundary, and led
  away from it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.ellipsoids import OVERFLOW
from lipyomo.relaxations.semidefinite.kernel import Factor, Kernel, State, bound_of
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.steps import Memory, stepped_until


@dataclass(frozen=True)
class _Point:
    """Multipliers with all that one factorisation gives."""

    kernel: Kernel
    y: FloatArray
    factor: Factor
    x: FloatArray
    tau: float
    quarter: float

    @property
    def value(self) -> float:
        return bound_of(self.tau, self.quarter)

    @cached_property
    def logdet(self) -> float:
        """Log-determinant of C."""
        return self.kernel.logdet(self.factor)

    def merit(self, mu: float) -> float:
        """The barrier function."""
        return self.tau + self.quarter - mu * self.logdet

    def balanced(self, iterations: int) -> State:
        """The state at this point, both halves of its bound made equal."""
        state = self.kernel.state(self.factor, self.y, self.tau, self.quarter, self.x)
        return replace(state, iterations=iterations)


def _at(kernel: Kernel, y: FloatArray) -> _Point | None:
    """The point of these multipliers; None if C is not positive definite."""
    if not y[: y.size - kernel.free].min() > 0:
        return None
    factor = kernel.factor(y)
    return None if factor is None else _Point(kernel, y, factor, *kernel.terms(factor, y))


def _search(
    point: _Point,
    along: Callable[[float], FloatArray],
    decrement: float,
    mu: float,
    length: float,
) -> tuple[_Point, float] | None:
    """Halve a step, which ends in ``along(length)``, until the barrier function falls enough."""
    before = point.merit(mu)
    slack = 1e-12 * abs(before)
    least = PARAMS.coarse * length
    while length > least:
        found = _at(point.kernel, along(length))
        if found is not None and found.merit(mu) <= before - 0.1 * length * decrement + slack:
            return found, length
        length *= 0.5
    return None


def _straight(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    return lambda length: np.asarray(point.y + length * step)


def _bent(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    """A step in the multipliers' logarithms; where squares would overflow there is no point."""

    def along(length: float) -> FloatArray:
        with np.errstate(over="ignore"):
            found = np.asarray(point.y * np.exp(length * step))
        return found if found.max() < OVERFLOW else np.full_like(found, np.nan)

    return along


def _stretched(kernel: Kernel, y: FloatArray, factor: float) -> FloatArray:
    """Multipliers with the inputs' part enlarged, which only makes C larger."""
    longer = y.copy()
    longer[kernel.outputs : kernel.outputs + kernel.inputs] *= factor
    return longer


def _off_boundary(point: _Point, mu: float) -> _Point:
    """The inputs' multipliers enlarged as long as the barrier function falls.

    A step that was cut short ends next to the boundary, along a direction in which the following
    ones would be cut again and again: the root of a 6-256-256-256-1 network took 150 steps to its
    first central point, and takes 14.
    """
    best = point
    for stretch in (1.003, 1.01, 1.03, 1.1, 1.3):
        longer = _at(point.kernel, _stretched(point.kernel, point.y, stretch))
        if longer is None or longer.merit(mu) >= best.merit(mu):
            break
        best = longer
    return best


def minimise(
    kernel: Kernel,
    warm: FloatArray | None = None,
    target: float | None = None,
    max_iterations: int = PARAMS.most_steps,
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
    begun = Descent.begun(kernel, tolerance, stop)
    return begun.lowered(target, lambda _: stop()).best


def refine(
    kernel: Kernel,
    point: _Point,
    target: float | None,
    max_iterations: int,
    tolerance: float,
    stop: Callable[[], bool],
) -> State:
    """Newton's method from a point that is nearly central."""
    start = point.balanced(0)
    met = target is not None and start.value <= target
    if met or point.quarter <= 0 or max_iterations < 1:
        return start
    # next to the boundary Newton's steps are short
    inside = _at(kernel, _stretched(kernel, start.multipliers, PARAMS.stretch))
    point = inside or _at(kernel, start.multipliers) or point
    n = kernel.order
    mu = 0.5 * PARAMS.first_mu * (point.tau + point.quarter) / n
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
        damped = math.sqrt(mu / max(decrement, mu))  # the boundary is about so far away
        found = _search(point, along, decrement, mu, damped)
        if found is None:
            break
        point, length = found
        if point.value < value:
            best, value = point, point.value
        if target is not None:
            if value <= target:
                break
            hopeless = value - PARAMS.out_of_reach * mu * n > target
            if hopeless and decrement < 0.5 * mu * n:
                break
        centred = decrement < PARAMS.warm_central * n * mu
        if mu * n < tolerance * value:
            if centred:
                break
        elif centred:
            mu *= PARAMS.warm_fall
        elif length > 0.9:
            mu *= 0.5
    return replace(start, iterations=iteration) if best is None else best.balanced(iteration)


@dataclass(frozen=True)
class Descent:
    """The way from a closed-form start along the central path; a value that can be taken up again.

    Attributes
    ----------
    kernel : Kernel
    point : State or None
        Where it is; None if no definite C was found.
    best : State or None
        The least bound so far.
    done : bool
        Whether nothing more is to be gained.
    tolerance : float
        The descent is done when what is left to gain is less than this share, as the last
        prediction tells: the bound falls at least in proportion to mu.
    mu : float
        Weight of the barrier.
    last : float
        The bound at the last central point; infinite before the first: from there on bounds fall
        slowly.
    fallen : float
        Share by which mu fell after it.
    memory : Memory or None
        Of the quasi-Newton steps; None once Newton's have begun.
    seconds : float
        What a step takes that may be a long one, by the last ones of its kind; zero if none.
    """

    kernel: Kernel
    point: _Point | None
    best: State | None
    done: bool
    tolerance: float = 1e-3
    mu: float = 0.0
    last: float = math.inf
    fallen: float = 1.0
    memory: Memory | None = None
    seconds: float = 0.0

    @classmethod
    def begun(
        cls,
        kernel: Kernel,
        tolerance: float = 1e-3,
        stop: Callable[[], bool] | None = None,
        start: FloatArray | None = None,
    ) -> Descent:
        """A descent before its first step.

        Parameters
        ----------
        kernel : Kernel
        tolerance : float, optional
        stop : callable, optional
            Polled while the start is computed (`done` without an answer if it comes too late).
        start : ndarray, optional
            Multipliers to begin with, those of the kernel in closed form by default, or where these
            are not feasible.
        """
        point = None if start is None else _at(kernel, start)
        if point is None:
            y = kernel.start(stop)
            point = None if y is None else _at(kernel, y)
        if point is None:
            return cls(kernel, None, None, done=True)
        best = point.balanced(0)
        if point.quarter <= 0:
            return cls(kernel, point, best, done=True)
        y = best.multipliers
        point = _Point(kernel, y, best.factor, *kernel.terms(best.factor, y))
        mu = PARAMS.first_mu * (point.tau + point.quarter) / kernel.order
        memory = None if kernel.free else Memory()
        return cls(kernel, point, best, done=False, tolerance=tolerance, mu=mu, memory=memory)

    def extended(self, kernel: Kernel) -> Descent:
        """The same descent with a kernel that has more free multipliers, all zero so far."""
        if self.best is None:
            return self
        start = np.concatenate([self.best.multipliers, np.zeros(kernel.free - self.kernel.free)])
        longer = Descent.begun(kernel, self.tolerance, start=start)
        if longer.best is None or longer.done:
            return longer
        best = replace(longer.best, iterations=self.best.iterations)
        return replace(longer, best=best, mu=self.mu, seconds=self.seconds)

    @property
    def approaching(self) -> bool:
        """Whether the next step is a quasi-Newton step."""
        return self.memory is not None

    @property
    def centred(self) -> bool:
        """Whether a point was central: from there on bounds fall slowly."""
        return self.last < math.inf

    @property
    def value(self) -> float:
        """The least bound so far."""
        return math.inf if self.best is None else self.best.value

    def lowered(
        self,
        target: float | None = None,
        stop: Callable[[Descent], bool] | None = None,
        patient: bool = False,
    ) -> Descent:
        """Go on until the bound meets `target` or is optimal, or `stop` says so.

        Parameters
        ----------
        target : float, optional
        stop : callable, optional
            Asked before each step.
        patient : bool, optional
            Whether to go on when the target is out of reach.
        """

        def enough(now: Descent) -> bool:
            if target is not None and now.value <= target:
                return True
            if target is not None and not patient and now._hopeless(target):
                return True
            return stop is not None and stop(now)

        return stepped_until(self, enough)

    def stepped(self) -> Descent:
        """One step further."""
        return self._approached() if self.approaching else self._stepped()

    def timed(self, seconds: float) -> Descent:
        """With what the next step is expected to take."""
        return replace(self, seconds=seconds)

    def _hopeless(self, target: float) -> bool:
        """Whether a central point has shown that the target is out of reach."""
        rest = self.mu * self.kernel.order
        return self.centred and self.value - rest > target and rest < PARAMS.coarse * self.value

    def _at(self, point: _Point, iterations: int) -> Descent:
        """The descent at another point."""
        assert self.best is not None
        lower = point.value < self.best.value
        best = point.balanced(iterations) if lower else replace(self.best, iterations=iterations)
        return replace(self, point=point, best=best)

    def _stepped(self) -> Descent:
        """A step of Newton's method, or to a smaller mu."""
        assert self.best is not None
        assert self.point is not None
        kernel, point, mu = self.kernel, self.point, self.mu
        iteration = self.best.iterations + 1
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no step
            system = kernel.system(point.factor, point.y, point.x, mu)
        if system is None or iteration > PARAMS.most_steps:
            return replace(self, done=True)
        step, decrement = system.step(mu)
        now = self
        # what centring still gains is little beside mu times the order; and where multipliers of
        # pairs make up for each other without end, no point is central
        if decrement < max(PARAMS.coarse * kernel.order, 1.0) * mu:
            if self.last - point.value < self.fallen * self.tolerance * point.value:
                return replace(self, done=True)
            now = replace(self, last=point.value)
            predicted = now._predicted(point, system.solve(system.barrier), step)
            if predicted is not None:
                found, share = predicted
                return replace(now, mu=(1.0 - share) * mu, fallen=share)._at(found, iteration)
        full = kernel.expand(step)
        length = min(1.0, PARAMS.to_boundary * kernel.reach(point.factor, point.y, full))
        along = _straight(point, full)
        searched = _search(point, along, decrement, mu, length)
        if searched is None:
            return replace(now, done=True)
        found, length = searched
        return now._at(found if length > 0.9 else _off_boundary(found, mu), iteration)

    def _approached(self) -> Descent:
        """A quasi-Newton step in the logarithms of the multipliers."""
        assert self.memory is not None
        assert self.point is not None
        kernel, point, mu = self.kernel, self.point, self.mu
        slopes = kernel.slopes(point.factor, point.y, point.x, mu)
        memory = self.memory.at(slopes)
        direction, length = memory.direction(slopes)
        along = _bent(point, kernel.expand(direction))
        decrement = -float(slopes @ direction)
        found = _search(point, along, decrement, mu, length)
        if found is None:
            return replace(self, memory=None)
        end, length = found
        little = not point.merit(mu) - end.merit(mu) > PARAMS.coarse * end.value
        moved = None if little else memory.moved(length * direction, slopes)
        return replace(self, memory=moved)._at(end, 0)

    def _predicted(
        self, point: _Point, tangent: FloatArray, step: FloatArray
    ) -> tuple[_Point, float] | None:
        """A point on the path's tangent at a smaller mu, and the share by which that falls.

        The tangent begins at the end of a full Newton step, where that is feasible.
        """
        kernel = self.kernel
        centre = _at(kernel, point.y + kernel.expand(step)) or point
        along = kernel.expand(self.mu * tangent)
        share = PARAMS.to_boundary * min(kernel.reach(centre.factor, centre.y, along), 1.0)
        found = _at(kernel, centre.y + share * along)
        return None if found is None else (found, share)
