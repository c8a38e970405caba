"""What never changes while boxes are halved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.system.memory import CACHED
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.search.spaces.joint.boxes import Boxes
from lipyomo.search.spaces.joint.params import PARAMS, Params


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
        if network.smooth or not network.hidden or not domain.is_bounded:
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
    def round_out(self) -> bool:
        """Whether functionals are."""
        return self.targets.whole_ball

    @property
    def euclidean(self) -> bool:
        """Whether one of the balls is Euclidean."""
        return self.round_in or self.round_out

    @property
    def box_chunk(self) -> int:
        """Boxes whose rows are taken back together: those of a layer fill a few caches."""
        widest = max(self.problem.tangent_network.sizes)
        return max(1, 8 * CACHED // (8 * widest * max(widest, len(self.directions))))

    def whole(self) -> Boxes:
        """The box around the domain, of which nothing is known."""
        domain = self.problem.domain
        functionals = 1 if self.round_out else len(self.targets.functionals)
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
