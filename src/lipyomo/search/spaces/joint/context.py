"""Boxes, the fixed data of their search, and its tuning parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.system.memory import CACHED
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.search.engine.params import HALVED
from lipyomo.search.spaces.bundle import Bundle, halves


@dataclass(frozen=True, eq=False)
class JointBoxes(Bundle):
    """Boxes with upper bounds of the quantity to be maximised on them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        The corners of the boxes.
    pairs : ndarray, shape (N, k, q)
        Bounds for each functional and each direction; minus infinity where a box is empty.  A
        Euclidean ball counts as one direction.
    scores : ndarray, shape (N, d)
        The input with the largest score is bisected.
    fall : ndarray, shape (N,)
        By how much the last bisections have lowered the logarithm of the bound, on average;
        infinite where unknown.
    """

    low: FloatArray
    high: FloatArray
    pairs: FloatArray
    scores: FloatArray
    fall: FloatArray

    @property
    def bounds(self) -> FloatArray:
        """Upper bounds, shape (N,)."""
        return np.asarray(self.pairs.max(axis=(1, 2)))

    def halves(self) -> tuple[JointBoxes, BoolArray]:
        """Bisect the boxes that can be bisected: return the halves, lower ones first, and which.

        The score of the bisected input is halved until the halves are bounded.
        """
        axis, scores = self.scores.argmax(axis=1), self.scores.copy()
        scores[np.arange(len(self)), axis] *= 0.5
        return halves(replace(self, scores=scores), axis)

    def are_far(self, cutoff: float, count: float) -> BoolArray:
        """Return which boxes seem to need more than `count` bisections to reach the cutoff."""
        if not cutoff > 0.0:
            return np.zeros(len(self), dtype=bool)
        above = np.log(np.maximum(self.bounds / cutoff, 1.0))
        return np.asarray(np.isfinite(above) & (above > count * self.fall))

    def fallen(self, before: JointBoxes, times: IntArray) -> JointBoxes:
        """Return these boxes with `fall` updated from their bounds before and now.

        Parameters
        ----------
        before : JointBoxes
        times : ndarray of int, shape (N,)
            How often each box was bisected in between.
        """
        above, now = before.bounds, self.bounds
        known = np.isfinite(above) & (now > 0.0) & (above > 0.0)
        with np.errstate(over="ignore"):  # a bound near zero counts as unknown
            ratio = np.where(known, above, 1.0) / np.where(known, now, 1.0)
        fall = np.where(known, np.log(np.maximum(ratio, 1.0)) / times, np.inf)
        old = np.where(np.isfinite(before.fall), before.fall, fall)
        return replace(self, fall=0.5 * (old + fall))


class Params(NamedTuple):
    """All tuning parameters of the search of boxes, in one place.

    Attributes
    ----------
    inputs : int
        The largest number of inputs for which boxes are tried.
    pairs : int
        The largest number of pairs of a direction and a functional: every box has a bound of each.
    bundle : int
        The largest number of boxes in a node.
    chains : int
        The number of directions, over all boxes, that are substituted back at a time.  More have
        less overhead each, but use more of the cache.
    handed : float
        Boxes are handed over to the search over phases once their bound is at most this multiple of
        the cutoff.  This is the value at the start; it is then adapted to how often this succeeds.
    handed_together : int
        The largest number of boxes handed over at a time, and the number at the start, as nothing
        is learnt before they have been examined.
    node : float
        The number of boxes that are bisected in the time of a node of the search over phases (3 to
        30 were measured on three networks).  Boxes that seem to need fewer are bisected.
    single : int
        Up to this many directions of a box are bounded one by one, which is tighter.
    far : float
        Not where the bound is above this multiple of the cutoff: such a box is bisected anyway.  A
        whole domain at or below it is left to the search over phases.
    hopeless : float
        Above this multiple of the cutoff, a bound of the whole domain is useless.
    compared : bool
        Whether boxes have to be better than the search over phases in order to be bisected.
    least_width : float
        Boxes narrower than this share of the domain are always handed over: units whose kinks meet
        in a point stay unstable in some box however often it is bisected.
    trial : int
        The number of boxes that are bounded before a choice is made.
    early, early_nodes : int
        The largest number of boxes that are bisected by the first early look beside a search over
        phases, and after how many nodes of this search it comes.
    early_inputs : int
        The largest number of inputs for which there are early looks: with more, and with Euclidean
        norms, boxes are seldom closed so soon.
    pause : float
        Seconds of the search over phases before boxes are first tried beside it, times the number
        of bundles that bisecting every edge once yields: fewer boxes give no information.
    share : float
        The largest share of the time that boxes get beside a search over phases, and twice the
        share at the first try: this limits what a wrong choice costs.
    ahead : float
        The gaps compared are those expected after this many times the time so far, or at the end.
    best, starts : int
        Ascents start in the middles of `starts` of the `best` boxes with the largest bounds.
    few, samples : int
        The number of points that are evaluated for a first estimate of the constant, and by the
        trial; for Euclidean norms `samples` are used for both.
    """

    inputs: int = HALVED
    pairs: int = 1 << 10
    bundle: int = 64
    chains: int = 256
    handed: float = 4.0
    handed_together: int = 8
    node: float = 16.0
    single: int = 2
    far: float = 16.0
    hopeless: float = 256.0
    compared: bool = True
    least_width: float = 2.0**-10
    trial: int = 256
    early: int = 4096
    early_nodes: int = 16
    early_inputs: int = 3
    pause: float = 1.0
    share: float = 0.1
    ahead: float = 8.0
    best: int = 128
    starts: int = 32
    few: int = 64
    samples: int = 1024


PARAMS = Params()


class JointContext(NamedTuple):
    """A problem as the search of boxes uses it.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs, piecewise linear, over a bounded domain.
    targets : Targets
    directions : ndarray, shape (q, d')
        Vertices of the input ball, one of each pair +-v.  For a Euclidean ball, which uses frames
        instead, these are the unit vectors.
    params : Params
    """

    problem: LipschitzProblem
    targets: Targets
    directions: FloatArray
    params: Params

    @classmethod
    def of(cls, problem: LipschitzProblem, params: Params | None = None) -> JointContext | None:
        """Return the context of a problem, or None if it is not suited to boxes.

        Raises
        ------
        MethodError
            If the dual ball has too many vertices.
        """
        params = params or PARAMS
        domain, network, targets = problem.domain, problem.network, targets_of(problem)
        count = problem.tangent_network.input_dim
        if not network.hidden or not domain.is_bounded:
            return None
        if max(network.input_dim, count) > params.inputs:
            return None
        directions = np.eye(count)
        if problem.norm == "linf":
            signs = list(product([1.0, -1.0], repeat=count - 1))
            directions = np.array([(1.0, *rest) for rest in signs])
        if len(directions) * len(targets.functionals) > params.pairs:
            return None
        return cls(problem, targets, directions, params)

    @property
    def round_in(self) -> bool:
        """Whether the input ball is Euclidean, so that all directions are bounded together."""
        return self.problem.norm == "l2"

    @property
    def box_chunk(self) -> int:
        """The number of boxes whose rows are substituted together, limited by the cache."""
        widest = max(self.problem.tangent_network.sizes)
        return max(1, 8 * CACHED // (8 * widest * max(widest, len(self.directions))))

    def whole(self) -> JointBoxes:
        """Return the box around the domain, with infinite bounds."""
        domain = self.problem.domain
        functionals = 1 if self.targets.whole_ball else len(self.targets.functionals)
        shape = 1, functionals, 1 if self.round_in else len(self.directions)
        pairs, fall = np.full(shape, np.inf), np.full(1, np.inf)
        scores = np.ones((1, domain.dimension))
        return JointBoxes(domain.lower[None], domain.upper[None], pairs, scores, fall)

    def of_targets(self, pairs: FloatArray) -> FloatArray:
        """Return bounds (N, T) of targets, given those (N, k, q) of pairs."""
        rows = np.maximum(self.targets.rows, 0)  # a Euclidean ball has one
        if not self.targets.by_column:
            return np.asarray(pairs.max(axis=2)[:, rows])
        return pairs[:, rows, self.targets.columns]
