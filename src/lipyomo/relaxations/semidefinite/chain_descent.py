"""Interior-point minimisation of the bound of a chain, along its central path.

The outputs' multiplier fixes the scale of all multipliers, and zeta is scaled optimally at every
trial point, so a trial point only has to keep each Q_i definite.  Multipliers of units with hardly
any influence could grow without limit; a linear price keeps each below about ten times its start.
Every iterate gives a valid bound.

Closed forms are far from the central path, and Newton's method would take a hundred damped steps to
reach it.  A quasi-Newton method in the logarithms of the multipliers does so at a fifth of the
cost.  With thousands of units, whose Hessian would be too large, it is used throughout, at
decreasing mu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.chain import Chain, ChainPoint
from lipyomo.relaxations.semidefinite.chain_starts import start
from lipyomo.relaxations.semidefinite.steps import Memory, Stepwise

_FIRST = 0.03
"""First mu, relative to the one that would be central for the inputs alone: with .1 bounds fall
later, with .01 Newton steps are damped."""
_CAP = 10.0
"""Factor over its start at which the price of a multiplier balances the barrier."""
_AHEAD = 0.8
"""Largest reduction of mu in a predictor step, as a share; less where the bound would rise."""
_TURN = 10
"""Number of last quasi-Newton steps whose total gain decides whether to continue them."""
_GAIN = 0.3
"""Required mean gain of these steps, in units of mu."""
_SCALES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015)
"""Factors tried to scale the multipliers of a ball of functionals down for a single one."""
SECOND_ORDER = 4000
"""Largest number of multipliers for Newton steps: with more, a Hessian takes minutes."""
_FALL = 0.3
"""Reduction factor of mu without Newton steps."""
_MOST = 200
"""Limit of Newton steps, reached only if they do not converge."""


@dataclass(frozen=True, eq=False)
class ChainDescent(Stepwise):
    """State of the minimisation; immutable, so it can be resumed from any state.

    Attributes
    ----------
    chain : Chain
    point : ChainPoint or None
        Current iterate; None if no definite matrix was found.
    best : ChainPoint or None
        Iterate with the smallest bound so far.
    tolerance : float
        Done once mu times the order is less than this share of tau.
    mu : float
        Weight of the barrier.
    prices : ndarray, shape (N,)
        Linear costs of the multipliers, in units of mu.
    merits : tuple of float
        The barrier function at the last quasi-Newton iterates.
    near : float
        Squared decrement, in units of mu, up to which a point counts as central.
    steps, newton : int
        Number of all steps, and of Newton steps.
    """

    chain: Chain
    point: ChainPoint | None
    best: ChainPoint | None
    tolerance: float = 1e-3
    mu: float = 0.0
    prices: FloatArray = field(default_factory=lambda: np.zeros(0))
    merits: tuple[float, ...] = ()
    near: float = 1.0
    steps: int = 0
    newton: int = 0

    @classmethod
    def begun(
        cls, chain: Chain, tolerance: float = 1e-3, known: ChainPoint | None = None
    ) -> ChainDescent:
        """Start a descent from multipliers in closed form.

        Parameters
        ----------
        chain : Chain
        tolerance : float, optional
        known : ChainPoint, optional
            Point of the same layers with other functionals: its scaled multipliers are also tried.
        """
        point = start(chain)
        if known is not None:
            shape = known.zeta / known.tau
            tried = [chain.at(scale * known.lam, None, shape) for scale in _SCALES]
            ends = [point, *tried]
            point = min((p for p in ends if p is not None), key=lambda p: p.value, default=None)
        if point is None:
            return cls(chain, None, None, done=True)
        mu = _FIRST * 0.25 * point.value**2 / chain.inputs
        prices = 1.0 / (_CAP * point.lam)
        return cls(chain, point, point, tolerance, mu, prices, memory=Memory())

    @property
    def value(self) -> float:
        """The smallest bound so far, in floating point."""
        return np.inf if self.best is None else self.best.value

    def lowered(
        self, target: float = 0.0, stop: Callable[[ChainDescent], bool] | None = None
    ) -> ChainDescent:
        """Take steps until the bound is at most `target` or optimal, or `stop` returns True."""

        def enough(now: ChainDescent) -> bool:
            return now.value <= target or (stop is not None and stop(now))

        return self.until(enough)

    def stepped(self) -> ChainDescent:
        """Take one step."""
        return self._stepped() if self.memory is None else self._approached(self.memory)

    def _approached(self, memory: Memory) -> ChainDescent:
        """Take a quasi-Newton step in the logarithms of lambda and of zeta's proportions."""
        assert self.point is not None
        point, mu = self.point, self.mu
        by_zeta, by_lam = self.chain.slopes(point)
        slopes = -mu * point.lam * (by_lam - self.prices)
        split = 0 if self.chain.euclidean else self.chain.inputs
        slopes = np.concatenate([point.zeta[:split] * (1.0 - mu * by_zeta[:split]), slopes])
        memory = memory.at(slopes)
        direction, length = memory.direction(slopes)
        decrement, before, least = -float(slopes @ direction), self._merit(point), 1e-2 * length
        while length > least:
            factors, shape = np.exp(length * direction), point.zeta / point.tau
            if split:
                shape = shape * factors[:split] / (shape @ factors[:split])
            found = self.chain.at(point.lam * factors[split:], mu, shape)
            if found is not None and self._merit(found) <= before - 0.1 * length * decrement:
                break
            length *= 0.5
        else:
            return self._approached_all()
        merits = (*self.merits, before)[-_TURN:]
        little = len(merits) == _TURN and merits[0] - self._merit(found) < _TURN * _GAIN * mu
        then = replace(self._noted(found), merits=merits, steps=self.steps + 1)
        if little:
            return then._approached_all()
        return replace(then, memory=memory.moved(length * direction, slopes))

    def _approached_all(self) -> ChainDescent:
        """End the quasi-Newton steps at this mu: go on to Newton steps, or to a smaller mu."""
        if self.chain.order <= SECOND_ORDER:  # a Hessian is not too large
            return replace(self, memory=None)
        assert self.point is not None
        if self.mu * self.chain.order < self.tolerance * self.point.tau:
            return replace(self, done=True)
        return replace(self, mu=_FALL * self.mu, memory=Memory(), merits=())

    def _stepped(self) -> ChainDescent:
        """Take a Newton step, or a predictor step to a smaller mu if the point is central."""
        assert self.point is not None
        point, mu = self.point, self.mu
        if self.newton >= _MOST:
            return replace(self, done=True)
        now = replace(self, steps=self.steps + 1, newton=self.newton + 1)
        first = 1 if self.chain.euclidean else self.chain.inputs
        gradient, hessian = self.chain.derivatives(point)
        y = np.concatenate([point.zeta[:first], point.lam])
        gradient[first:] -= self.prices
        cost = np.zeros(y.size)
        cost[:first] = 1.0
        hessian *= mu * y[:, None] * y
        hessian[np.diag_indices_from(hessian)] *= 1.0 + 1e-14
        try:
            factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return replace(now, done=True)
        slopes = y * (cost - mu * gradient)
        step = -cho_solve(factor, slopes)
        decrement = -float(slopes @ step)
        if decrement < self.near * mu:
            now = now._noted(point)
            if mu * self.chain.order < self.tolerance * point.tau:
                return replace(now, done=True)
            return now._predicted(step, -mu * cho_solve(factor, y * gradient))
        return now._searched(step, decrement)

    def _noted(self, point: ChainPoint) -> ChainDescent:
        """Move to a point, and update the best one."""
        assert self.best is not None
        best = point if point.value < self.best.value else self.best
        return replace(self, point=point, best=best)

    def _merit(self, point: ChainPoint) -> float:
        """Return the barrier function at a point."""
        return point.tau - self.mu * (point.logdet - float(self.prices @ point.lam))

    def _moved(self, step: FloatArray, mu: float) -> ChainPoint | None:
        """Return the point after a step relative to the multipliers; None if infeasible."""
        assert self.point is not None
        chain, point = self.chain, self.point
        if chain.euclidean:
            return chain.at(point.lam * (1.0 + step[1:]), mu, np.ones(chain.inputs))
        zeta = point.zeta * (1.0 + step[: chain.inputs])
        if not zeta.min() > 0.0:
            return None
        return chain.at(point.lam * (1.0 + step[chain.inputs :]), mu, zeta / zeta.sum())

    def _predicted(self, centre: FloatArray, tangent: FloatArray) -> ChainDescent:
        """Take a predictor step to a smaller mu, along the tangent of the central path."""
        assert self.point is not None
        share = _AHEAD
        while share > 0.05:
            mu = self.mu * (1.0 - share)
            found = self._moved(centre + share * tangent, mu)
            if found is not None and found.value < 1.05 * self.point.value:
                return replace(self._noted(found), mu=mu)
            share *= 0.75
        mu = 0.5 * self.mu
        found = self._moved(np.zeros(centre.size), mu)
        return replace(self if found is None else self._noted(found), mu=mu)

    def _searched(self, step: FloatArray, decrement: float) -> ChainDescent:
        """Take a Newton step, halved until the barrier function decreases enough."""
        assert self.point is not None
        before, length = self._merit(self.point), 1.0
        while length > 1e-7:
            found = self._moved(length * step, self.mu)
            if found is not None and self._merit(found) < before - 0.1 * length * decrement:
                return self._noted(found)
            length *= 0.5
        # the remaining gain at this mu is below rounding
        near = max(self.near, 2.0 * decrement / self.mu)
        return replace(self, near=near, done=near > 50.0)
