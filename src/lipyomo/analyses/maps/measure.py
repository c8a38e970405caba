"""What is bounded of the Jacobians of patterns, on cells of a piecewise-linear network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, lengths
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.problems.norms import L1Output
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.gradient import gradient_norms
from lipyomo.relaxations.linear.layers import PhaseBatch


class Measure(ABC):
    """What is bounded of the Jacobians of patterns: a norm, or what stands for one."""

    problem: LipschitzProblem

    @property
    @abstractmethod
    def targets(self) -> Targets:
        """Functionals and directions."""

    @abstractmethod
    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """Those (n,) of Jacobians (n, k, d), up to rounding."""

    @abstractmethod
    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """What they (n,) may be off by: sums of so many terms, whose sizes (n, k, d) add up."""

    @abstractmethod
    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """Which values (n,) such errors (n,) would matter to."""

    @abstractmethod
    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """Upper bounds (n,) for all patterns that fit `phases` (n, N), by sums of so many terms."""


@dataclass(frozen=True, eq=False)
class PatternNorms(Measure):
    """Norms, from those of the inputs to those of the outputs."""

    problem: LipschitzProblem

    @cached_property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return targets_of(self.problem)

    def able(self, most: int) -> bool:
        """Whether they are computed: for linf to l2 over all signs, of so many inputs at most."""
        hard = self.targets.whole_ball and self.targets.norm == "linf"
        return not hard or self.problem.tangent_network.input_dim <= most

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """See `Measure`."""
        targets = self.targets
        if not targets.whole_ball or targets.by_column:
            return np.asarray(targets.interval(np.abs(jacobians)).max(axis=1))
        if targets.norm == "l2":
            return np.asarray(np.linalg.norm(jacobians, 2, axis=(1, 2)))
        signs = L1Output().vertices(jacobians.shape[2])
        assert signs is not None  # they are few: the problem is `able`
        return np.asarray(lengths(jacobians @ signs.T, axis=1).max(axis=1))

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """See `Measure`: also of singular values."""
        terms += 4 * sizes[0].size
        return np.asarray(gamma(terms) * self.targets.interval(sizes).max(axis=1))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """See `Measure`."""
        return np.asarray(values * EQUAL < errors)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """See `Measure`."""
        if not self.targets.whole_ball:
            network, norm = self.problem.tangent_network, self.problem.norm
            rows = self.targets.functionals
            each = (gradient_norms(network, phases, row, norm) for row in rows)
            return np.asarray(np.maximum.reduce(list(each)))
        rows = np.asarray(self.targets.functionals @ self.problem.network.head.weight)
        room = gamma(terms) * (
            np.abs(self.targets.functionals) @ np.asarray(self.problem.network.head.sizes)
        )
        layers = self.problem.tangent_network.hidden
        sizes = gradient_sizes(layers, phases, rows - room, rows + room)
        return np.asarray(self.targets.interval(sizes).max(axis=1))
