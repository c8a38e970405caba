"""Lowering the bound of a chain along its central path.

The multipliers' scale is fixed by that of the outputs, and the inputs' scale is the best one at
every trial, so that a trial only has to keep each Q_i definite.  Multipliers of units that are
hardly seen have next to no influence, and would grow without end: they have a price, which holds
each below some ten times where it began.  Any iterate is an answer.

Closed forms are far from central, and a hundred of Newton's steps, each cut short, would lead
there: a quasi-Newton method in the multipliers' logarithms does so at a fifth of the cost.  With
thousands of units, whose Hessian would be too large, it goes on alone, at smaller and smaller mu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.chain import Chain, ChainPoint
from lipyomo.relaxations.semidefinite.chain_starts import start
from lipyomo.relaxations.semidefinite.steps import Memory, stepped_until

_FIRST = 0.03
"""First weight of the barrier, as a share of what is central for the inputs alone: with .1 bounds
fall later, with .01 Newton's steps are cut short."""
_CAP = 10.0
"""Times its start at which a multiplier costs as much as the barrier gives."""
_AHEAD = 0.8
"""Share of mu that a prediction takes off at most; less where the bound would rise."""
_TURN = 10
"""Quasi-Newton steps by whose gain together it is decided whether more of them pay."""
_GAIN = 0.3
"""Times mu that each of these is to gain."""
_SCALES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015)
"""Of multipliers of a ball of functionals that are tried for one of them, which needs less."""
SECOND_ORDER = 4000
"""Multipliers up to which there are Newton steps: with more, a Hessian takes minutes."""
_FALL = 0.3
"""Factor of mu where there are none."""
_MOST = 200
"""Newton's steps: only numbers that do not converge take so many."""


@dataclass(frozen=True, eq=False)
class ChainDescent:
    """The way down; a value that can be taken up again.

    Attributes
    ----------
    chain : Chain
    point : ChainPoint or None
        Where it is; None if no definite matrix was found.
    best : ChainPoint or None
        The least bound so far.
    done : bool
        Whether nothing more is to be gained.
    tolerance : float
        Done when mu times the order is less than this share of tau.
    mu : float
        Weight of the barrier.
    prices : ndarray, shape (N,)
        What a multiplier costs, as a share of mu.
    memory : Memory or None
        Of the quasi-Newton steps; None once Newton's have begun.
    merits : tuple of float
        The barrier function at the last points of those.
    near : float
        Squared decrement, in mu, of points that count as central.
    steps, newton : int
        All, and those by Newton's method.
    seconds : float
        What the next step is expected to take; zero before the first of its kind.
    """

    chain: Chain
    point: ChainPoint | None
    best: ChainPoint | None
    done: bool
    tolerance: float = 1e-3
    mu: float = 0.0
    prices: FloatArray = field(default_factory=lambda: np.zeros(0))
    memory: Memory | None = None
    merits: tuple[float, ...] = ()
    near: float = 1.0
    steps: int = 0
    newton: int = 0
    seconds: float = 0.0

    @classmethod
    def begun(
        cls, chain: Chain, tolerance: float = 1e-3, known: ChainPoint | None = None
    ) -> ChainDescent:
        """A descent before its first step, from closed forms.

        Parameters
        ----------
        chain : Chain
        tolerance : float, optional
        known : ChainPoint, optional
            Of the same layers before other functionals: its multipliers, scaled, are tried too.
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
        return cls(chain, point, point, False, tolerance, mu, prices, Memory())

    @property
    def value(self) -> float:
        """The least bound so far, in floating point."""
        return np.inf if self.best is None else self.best.value

    @property
    def approaching(self) -> bool:
        """Whether the next step is a quasi-Newton step."""
        return self.memory is not None

    @property
    def by_gradients(self) -> bool:
        """Whether all steps are."""
        return self.chain.order > SECOND_ORDER

    def lowered(
        self, target: float = 0.0, stop: Callable[[ChainDescent], bool] | None = None
    ) -> ChainDescent:
        """Go on until the bound meets `target` or is optimal, or `stop` says so."""

        def enough(now: ChainDescent) -> bool:
            return now.value <= target or (stop is not None and stop(now))

        return stepped_until(self, enough)

    def stepped(self) -> ChainDescent:
        """One step further."""
        return self._stepped() if self.memory is None else self._approached(self.memory)

    def timed(self, seconds: float) -> ChainDescent:
        """With what the next step is expected to take."""
        return replace(self, seconds=seconds)

    def _approached(self, memory: Memory) -> ChainDescent:
        """A quasi-Newton step in the logarithms of the multipliers and of zeta's proportions."""
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
        """Where quasi-Newton steps gain no more: on to Newton's, or to a smaller mu."""
        if not self.by_gradients:
            return replace(self, memory=None)
        assert self.point is not None
        if self.mu * self.chain.order < self.tolerance * self.point.tau:
            return replace(self, done=True)
        return replace(self, mu=_FALL * self.mu, memory=Memory(), merits=())

    def _stepped(self) -> ChainDescent:
        """A step of Newton's method, or to a smaller mu."""
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
        """At another point."""
        assert self.best is not None
        best = point if point.value < self.best.value else self.best
        return replace(self, point=point, best=best)

    def _merit(self, point: ChainPoint) -> float:
        """The barrier function."""
        return point.tau - self.mu * (point.logdet - float(self.prices @ point.lam))

    def _moved(self, step: FloatArray, mu: float) -> ChainPoint | None:
        """The point after a relative step."""
        assert self.point is not None
        chain, point = self.chain, self.point
        if chain.euclidean:
            return chain.at(point.lam * (1.0 + step[1:]), mu, np.ones(chain.inputs))
        zeta = point.zeta * (1.0 + step[: chain.inputs])
        if not zeta.min() > 0.0:
            return None
        return chain.at(point.lam * (1.0 + step[chain.inputs :]), mu, zeta / zeta.sum())

    def _predicted(self, centre: FloatArray, tangent: FloatArray) -> ChainDescent:
        """A point near the path at a smaller mu."""
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
        """A Newton step, halved until the barrier function falls enough."""
        assert self.point is not None
        before, length = self._merit(self.point), 1.0
        while length > 1e-7:
            found = self._moved(length * step, self.mu)
            if found is not None and self._merit(found) < before - 0.1 * length * decrement:
                return self._noted(found)
            length *= 0.5
        # rounding hides what is left to gain at this mu
        near = max(self.near, 2.0 * decrement / self.mu)
        return replace(self, near=near, done=near > 50.0)
