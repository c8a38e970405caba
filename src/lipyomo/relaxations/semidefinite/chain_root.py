"""Proved bounds of deep networks, layer by layer, where that is much cheaper than one matrix.

The chain is built from the layers and the phases; units are never expressed as maps of the inputs.
The targets' bounds are minimised one after the other, the largest first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.clock import Clock, pace, seconds_of
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE, gamma
from lipyomo.base.system.memory import LARGE
from lipyomo.networks.network import Network
from lipyomo.networks.phases import Phases, count_open
from lipyomo.problems.affine.signal import UnitMap, unit_maps_of
from lipyomo.problems.norms import OutputNorm
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.chain import Chain
from lipyomo.relaxations.semidefinite.chain_descent import SECOND_ORDER, ChainDescent
from lipyomo.relaxations.semidefinite.chain_proof import Layered, proved_chain_bound
from lipyomo.relaxations.semidefinite.choice import root_cost

_CHEAPER = 2.0
"""Factor by which a step must be cheaper than with one matrix, whose multipliers are warm starts
for the tree."""
_LONG = 1.0
"""Predicted seconds of one matrix below which chains are not considered."""
LAYERS = 3
"""Number of layers with unstable units from which on chains are considered."""
_BELOW = 0.9
"""The largest bound is lowered to this share of the next one before turning to that target."""
_JOINT = 0.4
"""Largest share of the time left for all functionals together."""
_PROOFS = 0.1
"""Largest share of the time for intermediate proofs."""


@dataclass(frozen=True, eq=False)
class ChainBounds:
    """Proved bounds of all targets; immutable, `run` returns improved ones.

    Attributes
    ----------
    layered : Layered
        The network under its phases, with the functionals of all targets as its head.
    targets : Targets
    heads, errors : ndarray, shape (k, n)
        The functionals pulled back to the last hidden layer, and bounds of their rounding errors.
    upper : ndarray, shape (T,)
    start_cost, step_cost, proof_cost : float
        Predicted seconds of closed forms, a step and a proof, on one idle core.
    tolerance : float
        Relative accuracy of each minimum.
    together : ChainDescent, optional
        Descent for the Euclidean ball of all functionals, if these are single targets: its
        multipliers are a start for each of them.
    descents : mapping of int to ChainDescent
        Descents of single targets so far.
    finished : frozenset of int
        Targets whose bounds cannot be lowered further.
    stopped : bool
        Whether there was no time for another step.
    """

    layered: Layered
    targets: Targets
    heads: FloatArray
    errors: FloatArray
    upper: FloatArray
    start_cost: float
    step_cost: float
    proof_cost: float
    tolerance: float = 1e-3
    together: ChainDescent | None = None
    descents: Mapping[int, ChainDescent] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    stopped: bool = False

    @classmethod
    def of(
        cls,
        network: Network,
        norm: OutputNorm,
        phases: Phases,
        targets: Targets,
        known: FloatArray,
        tolerance: float = 1e-3,
    ) -> ChainBounds | None:
        """Set up the bounds; None if chains do not apply.

        They apply to Euclidean balls and cubes of inputs, and to functionals or Euclidean balls of
        them.

        Parameters
        ----------
        network : Network
            With two-slope units, and directions as its inputs.
        norm : OutputNorm
            Used for a target that stands for all functionals.
        phases : tuple of ndarray
        targets : Targets
        known : ndarray, shape (T,)
            Known upper bounds.
        tolerance : float, optional
        """
        whole = targets.whole_ball
        if targets.norm == "l1" or not network.hidden:
            return None
        if whole and norm.dual_ball != "round":
            return None
        if not count_open(phases) or 8.0 * sum(_entries(network)) > LARGE:
            return None
        unit_maps = unit_maps_of(network.hidden, phases, network.input_dim)
        head, functionals = network.head.weight, targets.functionals
        heads = np.asarray(functionals @ head)
        errors = np.zeros(heads.shape)
        if not product_is_exact(functionals, head):
            errors = gamma(network.output_dim) * np.asarray(np.abs(functionals) @ abs(head))
        if not heads.any():
            return None
        euclidean = targets.norm == "l2"
        layered = Layered(network.hidden, unit_maps, heads, errors, euclidean)
        costs = _costs(unit_maps, network.sizes, euclidean)
        return cls(layered, targets, heads, errors, known.copy(), *costs, tolerance)

    @property
    def value(self) -> float:
        """Upper bound of all targets."""
        return float(self.upper.max(initial=0.0))

    @property
    def untouched(self) -> bool:
        """Whether nothing was computed, for lack of time even for closed forms."""
        return self.together is None and not self.descents

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return sum(descent.steps for descent in self.descents.values())

    @property
    def done(self) -> bool:
        """Whether the largest bound cannot be lowered further."""
        return int(np.argmax(self.upper)) in self.finished

    def run(
        self,
        cutoff: float = 0.0,
        clock: Clock | None = None,
        report: Callable[[float], object] | None = None,
        closed_only: bool = False,
    ) -> ChainBounds:
        """Lower the bounds until the largest one is minimal, or at most `cutoff`, or time is up.

        Parameters
        ----------
        cutoff : float, optional
            Bounds at or below it need not be lowered.
        clock : Clock, optional
            Work that does not fit into the time left is skipped.
        report : callable, optional
            Called with `value` whenever it has improved.
        closed_only : bool, optional
            Whether to compute the bounds in closed form only.
        """
        clock, report = clock or Clock(), report or (lambda value: None)
        now = self if closed_only else self._together(clock, report)
        while not now.done and now.value > cutoff:
            worst = int(np.argmax(now.upper))
            if closed_only and worst in now.descents:
                break
            now = now._lowered(worst, cutoff, clock, report, closed_only)
            if now.stopped:
                break
        return now

    def layered_of(self, target: int) -> Layered:
        """Return the network with the functionals of a target as its head."""
        row = int(self.targets.rows[target])
        rows = slice(None) if self.targets.whole_ball else slice(row, row + 1)
        return replace(self.layered, head=self.heads[rows], head_errors=self.errors[rows])

    def begun(
        self,
        cutoff: float = 0.0,
        clock: Clock | None = None,
        report: Callable[[float], object] | None = None,
    ) -> ChainBounds:
        """Compute bounds in closed form, for all functionals together; parameters as for `run`."""
        if self.targets.count < 2:
            return self.run(cutoff, clock, report, closed_only=True)
        return self._begun_together(clock or Clock(), report or (lambda value: None))

    def with_known(self, known: FloatArray) -> ChainBounds:
        """Intersect with upper bounds (T,) that were found elsewhere."""
        return replace(self, upper=np.fmin(self.upper, known))

    def _begun_together(self, clock: Clock, report: Callable[[float], object]) -> ChainBounds:
        """Add the closed form for the ball of all functionals, if these are single targets.

        The Euclidean norm of all their values is an upper bound of each.
        """
        if self.targets.count < 2 or self.together is not None or self.descents:
            return self
        if not clock.fits(self.start_cost + self.proof_cost):
            return self
        given = self.layered
        chain = Chain.of(given.layers, given.unit_maps, self.heads, given.euclidean)
        return self._proved_together(ChainDescent.begun(chain, self.tolerance), report)

    def _proved_together(
        self, descent: ChainDescent, report: Callable[[float], object]
    ) -> ChainBounds:
        """Prove the bound of a descent for the ball of all functionals, and use it."""
        now = replace(self, together=descent)
        if descent.best is None or not descent.value < self.value:
            return now
        shape = descent.best.shape(descent.chain)
        found = proved_chain_bound(self.layered, descent.best.lam, shape)
        return now._with(np.full(self.upper.size, found), report)

    def _together(self, clock: Clock, report: Callable[[float], object]) -> ChainBounds:
        """Take the first steps for all functionals together, if these are single targets."""
        now = self._begun_together(clock, report)
        if now.together is None or now.descents or not now.together.approaching:
            return now
        part, proof = clock.within(_JOINT * clock.left), self.proof_cost * pace()

        first = now.together.mu

        def enough(descent: ChainDescent) -> bool:
            near = descent.approaching and descent.mu == first
            return not near or part.expired or self._late(descent, proof, clock)

        return now._proved_together(now.together.lowered(stop=enough), report)

    def _with(self, found: FloatArray, report: Callable[[float], object]) -> ChainBounds:
        """Intersect with proved bounds (T,), and report an improvement."""
        now = self.with_known(found)
        if now.value < self.value:
            report(now.value)
        return now

    def _lowered(
        self,
        target: int,
        cutoff: float,
        clock: Clock,
        report: Callable[[float], object],
        closed_only: bool,
    ) -> ChainBounds:
        """Lower the bound of one target until another one has the largest."""
        layered = self.layered_of(target)
        descent = self.descents.get(target)
        if descent is None:
            if not clock.fits(self.start_cost + self.proof_cost):
                return replace(self, stopped=True)
            if not layered.head.any():
                return replace(self, finished=self.finished | {target})
            chain = Chain.of(layered.layers, layered.unit_maps, layered.head, layered.euclidean)
            known = None if self.together is None else self.together.best
            descent = ChainDescent.begun(chain, self.tolerance, known)
        others = float(np.delete(self.upper, target).max(initial=0.0))
        aim = max(cutoff, _BELOW * others) * (1.0 - EXACT_TOLERANCE)
        now, proved, took = self, np.inf, self.proof_cost * pace()
        while descent.best is not None:
            if descent.value < proved:
                began = time.perf_counter()
                shape = descent.best.shape(descent.chain)
                found = proved_chain_bound(layered, descent.best.lam, shape)
                took, proved = time.perf_counter() - began, min(proved, found)
                own = np.full(now.upper.size, np.inf)
                own[target] = found
                now = now._with(own, report)
            if descent.done or closed_only or descent.value <= aim:
                break
            if now._late(descent, took, clock):
                now = replace(now, stopped=True)
                break
            enough = partial(_enough, now, took, time.perf_counter(), clock)
            descent = descent.lowered(aim, enough)
        stuck = descent.done or now.upper[target] > aim >= descent.value
        finished = now.finished | {target} if stuck or descent.best is None else now.finished
        return replace(now, descents={**now.descents, target: descent}, finished=finished)

    def _late(self, descent: ChainDescent, proof: float, clock: Clock) -> bool:
        """Whether there is no time for a step and a proof; if so, curtail the clock."""
        step = descent.seconds or self.step_cost * pace()
        late = clock.left <= 1.5 * step + 1.5 * proof
        if late:
            clock.curtail()
        return late


def _enough(
    bounds: ChainBounds, proof: float, began: float, clock: Clock, descent: ChainDescent
) -> bool:
    """Whether to interrupt a descent: for an intermediate proof, or because time is up."""
    spent = time.perf_counter() - began
    return bounds._late(descent, proof, clock) or _PROOFS * spent > proof


def _entries(network: Network) -> list[float]:
    """Count the entries of the dense weights, and of all matrices of a step."""
    sizes = [float(size) for size in network.sizes]
    order = sum(sizes[1:-1]) + min(sizes[0], sizes[1])
    weights = [a * b for a, b in pairwise(sizes)]
    return [*weights, 6.0 * (order if order <= SECOND_ORDER else max(sizes[1:-1])) ** 2]


def _costs(
    unit_maps: list[UnitMap], sizes: tuple[int, ...], euclidean: bool
) -> tuple[float, float, float]:
    """Predict the seconds of closed forms, of a step with its trials, and of a proof."""
    inputs = float(min(sizes[0], sizes[1]) if euclidean else sizes[0])
    before, columns, step, proof, units, trials, start = inputs, inputs, 0.0, 0.0, 0.0, 0.0, 0.0
    for unit_map, width in zip(unit_maps, sizes[1:-1], strict=True):
        n, p, o = float(width), before, float(unit_map.units.size)
        passed = float(np.count_nonzero(unit_map.slope))
        trial = o**3 / 3.0 + o * o * p + o * p * p + 2.0 * passed * p * (passed + p + o)
        start += 45.0 * trial  # several shares of each layer, in a few closed forms
        trials += trial + o**3 + 2.0 * p * p * (o + n)
        step += 2.0 * trial + 4.0 * o**3 + 8.0 * p * p * (o + n) + 2.0 * (2.0 * o + n) * p * columns
        proof += 3.0 * trial + (p + o) ** 3
        columns, before, units = columns + 2.0 * o, n, units + o
    free = units + (1.0 if euclidean else inputs)
    if units + inputs > SECOND_ORDER:
        step, free = 2.0 * trials, 0.0
    step += free**3 / 3.0 + 12.0 * inputs**3
    proof += 4.0 * sizes[0] * sizes[1] ** 2
    return seconds_of(start), seconds_of(step), seconds_of(proof)


def exact_tangents(network: Network, directions: Matrix | None) -> Network | None:
    """Return the network with directions as inputs; None if its first layer would be rounded."""
    if directions is None:
        return network
    exact = product_is_exact(network.layers[0].weight, directions)
    return network.with_directions(directions) if exact else None


def chain_bounds(
    network: Network | None,
    norm: OutputNorm,
    phases: Phases,
    targets: Targets,
    known: FloatArray,
    tolerance: float = 1e-3,
) -> ChainBounds | None:
    """Return `ChainBounds.of` if it is much cheaper than the bounds by one matrix, else None."""
    layers = [count_open((phase,)) for phase in phases]
    if network is None or sum(count > 0 for count in layers) < LAYERS:
        return None
    one = root_cost(targets, network.input_dim, sum(layers), layers)
    if one.fits and one.full < _LONG:
        return None
    found = ChainBounds.of(network, norm, phases, targets, known, tolerance)
    if found is None or (one.fits and _CHEAPER * found.step_cost > one.step):
        return None
    return found
