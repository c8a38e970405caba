"""Boxes, and what never changes while they are halved, with the numbers of their search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.system.memory import CACHED
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.search.engine.params import HALVED
from lipyomo.search.spaces.bundle import Bundle, halves


@dataclass(frozen=True, eq=False)
class Boxes(Bundle):
    """Boxes with upper bounds of what is to be maximised on them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Ends of the inputs.
    pairs : ndarray, shape (N, k, q)
        Bounds for each functional and each direction; minus infinity where a box is empty.  A
        Euclidean ball counts as one.
    scores : ndarray, shape (N, d)
        The input with the largest one is to be halved.
    fall : ndarray, shape (N,)
        What halving has lowered the bound by of late, in logarithms; infinite where unknown.
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

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are.

        An input that is halved is worth half of what it was, until halves are bounded.
        """
        axis, scores = self.scores.argmax(axis=1), self.scores.copy()
        scores[np.arange(len(self)), axis] *= 0.5
        return halves(replace(self, scores=scores), axis)

    def are_far(self, cutoff: float, count: float) -> BoolArray:
        """Which boxes are to be halved more than so many times until their bound is the cutoff."""
        if not cutoff > 0.0:
            return np.zeros(len(self), dtype=bool)
        above = np.log(np.maximum(self.bounds / cutoff, 1.0))
        return np.asarray(np.isfinite(above) & (above > count * self.fall))

    def fallen(self, before: Boxes, times: IntArray) -> Boxes:
        """With what is known of parts after their bounds, which were those of `before`.

        Parameters
        ----------
        before : Boxes
        times : ndarray of int, shape (N,)
            How often they were halved since.
        """
        above, now = before.bounds, self.bounds
        known = np.isfinite(above) & (now > 0.0) & (above > 0.0)
        with np.errstate(over="ignore"):  # a bound near nothing: as much as is not known
            ratio = np.where(known, above, 1.0) / np.where(known, now, 1.0)
        fall = np.where(known, np.log(np.maximum(ratio, 1.0)) / times, np.inf)
        old = np.where(np.isfinite(before.fall), before.fall, fall)
        return replace(self, fall=0.5 * (old + fall))


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    inputs : int
        Most inputs for which boxes are tried: with so many, halving them still leads far.
    pairs : int
        Most pairs of a direction and a functional: every box has a bound of each.
    bundle : int
        Most boxes of a node.
    chains : int
        Directions, over all boxes, that are substituted back at a time: less overhead each against
        the cache.
    near : float
        Boxes have semidefinite bounds once their bound is at most this multiple of the cutoff; the
        search learns from what becomes of them, and this is where it begins.
    handed : float
        The same for boxes that are handed over to the search of phases.
    handed_together : int
        So many at a time at most, and to begin with, as nothing is learnt meanwhile.
    node : float
        So many boxes are halved in the time of a node of phases (by three networks 3 to 30): those
        that become fewer boxes than that are halved.
    patience : int
        So many more boxes of a bundle may fail than twice those that semidefinite bounds close.
    single : int
        So many directions of a box are bounded one by one, which is tighter.
    far : float
        Not where the bound is above this multiple of the cutoff: such a box is halved anyway.  A
        whole domain at or below it is for the search of phases.
    hopeless : float
        Above this multiple of the cutoff a bound of the whole says nothing.
    compared : bool
        Whether boxes have to be better than the search of phases in order to be halved.
    least_width : float
        Boxes narrower than this share of the domain are handed over in any case: kinks that meet in
        a point stay open in some box however often it is halved.
    trial : int
        Boxes that are bounded before a choice is made.
    pause : float
        Seconds of a search of phases before the first look at boxes beside it, times the bundles of
        boxes that halving every edge once makes: until then boxes tell nothing.
    share : float
        Most of the time that boxes beside a search of phases have, and twice what the first look
        has: what a wrong choice costs.
    ahead : float
        Gaps are compared that are expected after so many times what has passed, or at the end.
    best, starts : int
        Ascents begin in the middles of so many of so many boxes with the largest bounds.
    few, samples : int
        Points that are looked at for a first idea of the constant, and by the trial; of Euclidean
        norms as many as by the trial.
    """

    inputs: int = HALVED
    pairs: int = 1 << 10
    bundle: int = 64
    chains: int = 256
    near: float = 1.2
    handed: float = 4.0
    handed_together: int = 8
    node: float = 16.0
    patience: int = 6
    single: int = 2
    far: float = 16.0
    hopeless: float = 256.0
    compared: bool = True
    least_width: float = 2.0**-10
    trial: int = 256
    pause: float = 1.0
    share: float = 0.2
    ahead: float = 8.0
    best: int = 128
    starts: int = 32
    few: int = 64
    samples: int = 1024


PARAMS = Params()


@dataclass(frozen=True, eq=False)
class Context:
    """A problem as batches of boxes have it.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs, piecewise linear, over a bounded domain.
    targets : Targets
    directions : ndarray, shape (q, d')
        Vertices of the input ball, one of each pair +-v; the inputs' for a Euclidean one, which has
        frames instead.
    params : Params
    """

    problem: LipschitzProblem
    targets: Targets
    directions: FloatArray
    params: Params

    @classmethod
    def of(cls, problem: LipschitzProblem, params: Params | None = None) -> Context | None:
        """The context of a problem; None where boxes are not for it.

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
        """Whether directions are those of a Euclidean ball, which are bounded together."""
        return self.problem.norm == "l2"

    @property
    def box_chunk(self) -> int:
        """Boxes whose rows are taken back together: those of a layer fill a few caches."""
        widest = max(self.problem.tangent_network.sizes)
        return max(1, 8 * CACHED // (8 * widest * max(widest, len(self.directions))))

    def whole(self) -> Boxes:
        """The box around the domain, of which nothing is known."""
        domain = self.problem.domain
        functionals = 1 if self.targets.whole_ball else len(self.targets.functionals)
        shape = 1, functionals, 1 if self.round_in else len(self.directions)
        pairs, fall = np.full(shape, np.inf), np.full(1, np.inf)
        scores = np.ones((1, domain.dimension))
        return Boxes(domain.lower[None], domain.upper[None], pairs, scores, fall)

    def of_targets(self, pairs: FloatArray) -> FloatArray:
        """Bounds (N, T) of targets from those (N, k, q) of pairs."""
        rows = np.maximum(self.targets.rows, 0)  # of a Euclidean ball there is one
        if not self.targets.by_column:
            return np.asarray(pairs.max(axis=2)[:, rows])
        return pairs[:, rows, self.targets.columns]
