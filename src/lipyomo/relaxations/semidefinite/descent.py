"""Interior-point minimisation of a semidefinite bound over its multipliers, for any kernel.

Any multipliers with C positive definite bound the gradient, so every iterate gives a valid bound
and the method may be stopped at any moment.

- `refine` starts from the multipliers of the parent node: they are close to the central path, and a
  few Newton steps suffice.
- `Descent` starts from multipliers in closed form.  These may be wrong by large factors, which a
  quasi-Newton method in their logarithms corrects at a fifth of the cost of Newton steps.  Once it
  gains little, Newton steps follow the central path.  At a central point a predictor step to a
  smaller mu uses the Hessian at hand (the path is nearly straight in mu) and goes at most nine
  tenths of the way to the boundary.  Other Newton steps are damped to stay off the boundary.
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
from lipyomo.relaxations.semidefinite.steps import Memory, Stepwise


@dataclass(frozen=True, eq=False)
class _Point:
    """Multipliers, the factorisation of C and the terms of the bound."""

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
        """Return the barrier function."""
        return self.tau + self.quarter - mu * self.logdet

    def balanced(self, iterations: int) -> State:
        """Return the state at this point, rescaled so that tau and quarter are equal."""
        state = self.kernel.state(self.factor, self.y, self.tau, self.quarter, self.x)
        return state._replace(iterations=iterations)


def _at(kernel: Kernel, y: FloatArray) -> _Point | None:
    """Evaluate multipliers; None if C is not positive definite."""
    if not y.min() > 0:
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
    """Halve a step to ``along(length)`` until the barrier function decreases enough."""
    before = point.merit(mu)
    slack = 1e-12 * abs(before)
    least = PARAMS.coarse**2 * length
    while length > least:
        found = _at(point.kernel, along(length))
        if found is not None and found.merit(mu) <= before - 0.1 * length * decrement + slack:
            return found, length
        length *= 0.5
    return None


def _straight(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    return lambda length: np.asarray(point.y + length * step)


def _bent(point: _Point, step: FloatArray) -> Callable[[float], FloatArray]:
    """Step in the logarithms of the multipliers; NaN where squares would overflow."""

    def along(length: float) -> FloatArray:
        with np.errstate(over="ignore"):
            found = np.asarray(point.y * np.exp(length * step))
        return found if found.max() < OVERFLOW else np.full_like(found, np.nan)

    return along


def _stretched(kernel: Kernel, y: FloatArray, factor: float) -> FloatArray:
    """Enlarge the multipliers of the inputs, which only makes C larger."""
    longer = y.copy()
    longer[kernel.outputs : kernel.outputs + kernel.inputs] *= factor
    return longer


def _off_boundary(point: _Point, mu: float) -> _Point:
    """Enlarge the inputs' multipliers as long as the barrier function decreases.

    A damped step ends next to the boundary, and the following ones would be damped again and
    again.  This reduces the steps to the first central point at the root of a 6-256-256-256-1
    network from 150 to 14.
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
    """Minimise the bound until it meets `target`, cannot meet it, or is optimal.

    Parameters
    ----------
    kernel : Kernel
    warm : ndarray, optional
        Multipliers of the parent.
    target : float, optional
        Cutoff: a bound at or below it prunes the node.  The minimisation also ends when a nearly
        central point shows that the target is out of reach.
    max_iterations : int, optional
        Limit of Newton steps from a warm start.
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
    """Minimise the bound by Newton's method from a nearly central point.

    Steps begin with the length at which self-concordance keeps them inside.  With many inputs it is
    far too short, so it is doubled after every step that need not be shortened.
    """
    start = point.balanced(0)
    met = target is not None and start.value <= target
    if met or point.quarter <= 0 or max_iterations < 1:
        return start
    # move off the boundary, where Newton steps are short
    inside = _at(kernel, _stretched(kernel, start.multipliers, PARAMS.stretch))
    point = inside or _at(kernel, start.multipliers) or point
    n = kernel.order
    mu = 0.5 * PARAMS.first_mu * (point.tau + point.quarter) / n
    best, value, iteration, longer = None, start.value, 0, 1.0
    for _ in range(max_iterations):
        iteration += 1
        if stop():
            break
        system = kernel.system(point.factor, point.y, point.x, mu)
        if system is None:
            break
        step, decrement = system.step(mu)
        along = _straight(point, kernel.expand(step))
        damped = math.sqrt(mu / max(decrement, mu))  # estimated distance of the boundary
        first = min(longer * damped, 1.0)
        found = _search(point, along, decrement, mu, first)
        if found is None:
            break
        point, length = found
        longer = max(length / damped, 1.0) * (2.0 if length == first else 1.0)
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
    return start._replace(iterations=iteration) if best is None else best.balanced(iteration)


@dataclass(frozen=True, eq=False)
class Descent(Stepwise):
    """State of the minimisation from a start in closed form; immutable, so it can be resumed.

    Attributes
    ----------
    kernel : Kernel
    point : _Point or None
        Current iterate; None if no definite C was found.
    best : State or None
        State with the smallest bound so far.
    tolerance : float
        Relative gain below which the descent is done.  The possible gain is extrapolated from the
        last two central points, assuming that the bound falls at least in proportion to mu.
    mu : float
        Weight of the barrier.
    last : float
        The bound at the last central point; infinite before the first.
    fallen : float
        Share by which mu was reduced after it.
    """

    kernel: Kernel
    point: _Point | None
    best: State | None
    tolerance: float = 1e-3
    mu: float = 0.0
    last: float = math.inf
    fallen: float = 1.0

    @classmethod
    def begun(
        cls,
        kernel: Kernel,
        tolerance: float = 1e-3,
        stop: Callable[[], bool] | None = None,
        start: FloatArray | None = None,
    ) -> Descent:
        """Start a descent.

        Parameters
        ----------
        kernel : Kernel
        tolerance : float, optional
        stop : callable, optional
            Polled while the start is computed; if it returns True, the descent is `done` without a
            bound.
        start : ndarray, optional
            First multipliers; those of the kernel in closed form by default, or if these are not
            feasible.
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
        return cls(kernel, point, best, tolerance, mu, memory=Memory())

    @property
    def value(self) -> float:
        """The smallest bound so far."""
        return math.inf if self.best is None else self.best.value

    def lowered(
        self,
        target: float | None = None,
        stop: Callable[[Descent], bool] | None = None,
        patient: bool = False,
    ) -> Descent:
        """Take steps until the bound meets `target` or is optimal, or `stop` returns True.

        Parameters
        ----------
        target : float, optional
        stop : callable, optional
            Called before each step.
        patient : bool, optional
            Whether to continue when the target is out of reach.
        """

        def enough(now: Descent) -> bool:
            if target is not None and now.value <= target:
                return True
            if target is not None and not patient and now._hopeless(target):
                return True
            return stop is not None and stop(now)

        return self.until(enough)

    def stepped(self) -> Descent:
        """Take one step."""
        return self._approached() if self.approaching else self._stepped()

    def _hopeless(self, target: float) -> bool:
        """Whether a central point has shown that the target is out of reach."""
        rest = self.mu * self.kernel.order
        centred = self.last < math.inf
        return centred and self.value - rest > target and rest < PARAMS.coarse * self.value

    def _at(self, point: _Point, iterations: int) -> Descent:
        """Move to another point, and update the best state."""
        assert self.best is not None
        lower = point.value < self.best.value
        best = point.balanced(iterations) if lower else self.best._replace(iterations=iterations)
        return replace(self, point=point, best=best)

    def _stepped(self) -> Descent:
        """Take a Newton step, or a predictor step to a smaller mu if the point is central."""
        assert self.best is not None
        assert self.point is not None
        kernel, point, mu = self.kernel, self.point, self.mu
        iteration = self.best.iterations + 1
        with np.errstate(over="ignore", invalid="ignore"):  # `system` is None after an overflow
            system = kernel.system(point.factor, point.y, point.x, mu)
        if system is None or iteration > PARAMS.most_steps:
            return replace(self, done=True)
        step, decrement = system.step(mu)
        now = self
        # further centring would gain little compared to mu times the order
        if decrement < max(PARAMS.coarse * kernel.order, 1.0) * mu:
            if self.last - point.value < self.fallen * self.tolerance * point.value:
                return replace(self, done=True)
            now = replace(self, last=point.value)
            predicted = now._predicted(point, system.solve(system.barrier), step)
            if predicted is not None:
                found, share = predicted
                return replace(now, mu=(1.0 - share) * mu, fallen=share)._at(found, iteration)
        full = kernel.expand(step)
        searched = _search(point, _straight(point, full), decrement, mu, 1.0)
        if searched is None:
            return replace(now, done=True)
        found, length = searched
        return now._at(found if length > 0.9 else _off_boundary(found, mu), iteration)

    def _approached(self) -> Descent:
        """Take a quasi-Newton step in the logarithms of the multipliers."""
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
        """Return a point on the tangent of the central path, and the share by which mu falls.

        The tangent starts at the end of a full Newton step if that is feasible, else at `point`.
        None if even a tenth of it is not feasible.
        """
        kernel = self.kernel
        centre = _at(kernel, point.y + kernel.expand(step)) or point
        along = kernel.expand(self.mu * tangent)
        share = 1.0
        while _at(kernel, centre.y + share * along) is None:
            share *= 0.75
            if share < 0.1:
                return None
        share *= PARAMS.to_boundary
        found = _at(kernel, centre.y + share * along)
        return None if found is None else (found, share)
