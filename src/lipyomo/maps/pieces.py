"""What never changes while cells of a piecewise-linear network are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lipyomo.affine.signal import FloatSignal, carry, decided
from lipyomo.arrays import BoolArray, FloatArray, IntArray, lengths
from lipyomo.bounds.derivative import gradient_sizes
from lipyomo.bounds.gradient import gradient_norms
from lipyomo.bounds.layers import by_layer
from lipyomo.bounds.stack import PhaseBatch
from lipyomo.maps.params import PARAMS, Params
from lipyomo.network import Layer, Network
from lipyomo.norms import L1Output
from lipyomo.numerics.rounding import gamma
from lipyomo.phases import flat, open_phases
from lipyomo.problem import LipschitzProblem
from lipyomo.sampling.evaluate import jacobian_rows
from lipyomo.targets import ALL, Targets, targets_of

DOUBT = 1e-9
"""Share of a norm from which on its own magnitudes, not those of all patterns, bound its error."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A piecewise-linear problem whose cells are wanted.

    Attributes
    ----------
    problem : LipschitzProblem
        Over a box that holds all cells; without frozen inputs.
    gap : float
        Relative gap that is good enough.
    params : Params
    """

    problem: LipschitzProblem
    gap: float = 0.0
    params: Params = field(default=PARAMS)

    @property
    def network(self) -> Network:
        """The network."""
        return self.problem.network

    @cached_property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return targets_of(self.problem)

    @property
    def able(self) -> bool:
        """Whether the norm of a pattern can be computed: for linf to l2, over all signs."""
        hard = self.targets.rows[0] == ALL and self.targets.input_norm == "linf"
        return not hard or self.problem.tangent_network.input_dim <= self.params.inputs

    @cached_property
    def open(self) -> PhaseBatch:
        """Phases (N,) of which nothing is known."""
        return flat(open_phases(self.network))

    @cached_property
    def work(self) -> int:
        """Multiplications for one pattern's norm."""
        return sum(layer.weight.size for layer in self.network.layers) * len(
            self.targets.functionals
        )

    # -- rounding ----------------------------------------------------------------------------------

    @cached_property
    def terms(self) -> int:
        """Length of all sums from the inputs to an output, and back."""
        sizes = self.network.sizes
        return 2 * (sum(sizes) + 4 * len(sizes)) + sum(self.targets.functionals.shape)

    @cached_property
    def errors(self) -> FloatArray:
        """What pre-activations (N,) may be off by at any point of the box, and more.

        A pre-activation at a point, and an affine form of it under any pattern, are sums of
        products along paths: they are off by gamma times the sum of the absolute products.  Twice
        that, and as much again, pays for sums over the forms (`inside`).
        """
        domain = self.problem.domain
        size, found = np.maximum(np.abs(domain.lower), np.abs(domain.upper)), [np.zeros(0)]
        for layer in self.network.hidden:
            size = np.asarray(layer.sizes @ size) + np.abs(layer.bias)
            found.append(size)
            size = size * np.maximum(np.abs(layer.left), np.abs(layer.right))
        tiny = np.finfo(np.float64).tiny
        return np.maximum(4.0 * gamma(self.terms) * np.concatenate(found), tiny)

    @cached_property
    def _magnitudes(self) -> Network:
        """Absolute weights and slopes."""
        return Network(
            Layer(layer.sizes, np.abs(layer.bias), np.abs(layer.left), np.abs(layer.right))
            for layer in self.problem.tangent_network.layers
        )

    @cached_property
    def _largest(self) -> float:
        """The most that the norm of any pattern is off by."""
        # magnitudes grow with slopes, and one of the two of each unit is the steeper one
        steeper = [np.abs(layer.right) >= np.abs(layer.left) for layer in self.network.hidden]
        return float(self._errors_of([side[None] for side in steeper])[0])

    def _errors_of(self, sides: Sequence[BoolArray]) -> FloatArray:
        """What the norms (n,) of patterns may be off by: sums of products, and singular values."""
        sizes = jacobian_rows(self._magnitudes, sides, np.abs(self.targets.functionals))
        terms = self.terms + 4 * sizes[0].size
        return np.asarray(gamma(terms) * self.targets.interval(sizes).max(axis=1))

    # -- values ------------------------------------------------------------------------------------

    def norms(self, on: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Norms (n,) of full patterns (n, N), and what they may be off by."""
        values, errors = np.empty(len(on)), np.full(len(on), self._largest)
        step = max(1, self.params.entries // self._widest)
        for at in range(0, len(on), step):
            part = slice(at, at + step)
            sides = self._sides(on[part])
            values[part] = self._sizes(
                jacobian_rows(self.problem.tangent_network, sides, self.targets.functionals)
            )
            weak = np.flatnonzero(values[part] * DOUBT < errors[part])
            if weak.size:
                errors[at + weak] = self._errors_of([side[weak] for side in sides])
        return values, errors

    def _sides(self, on: BoolArray) -> list[BoolArray]:
        """Patterns (n, N) layer by layer."""
        parts = by_layer(self.network.hidden, on.T)
        return [np.ascontiguousarray(part.T) for part in parts]

    @property
    def _widest(self) -> int:
        """Entries of the largest array for one pattern."""
        return max(self.network.sizes) * len(self.targets.functionals)

    def _sizes(self, jacobians: FloatArray) -> FloatArray:
        """Norms (n,) of Jacobians (n, k, d), up to rounding."""
        targets = self.targets
        if targets.rows[0] != ALL or targets.columns[0] != ALL:
            return np.asarray(targets.interval(np.abs(jacobians)).max(axis=1))
        if targets.input_norm == "l2":
            return np.asarray(np.linalg.norm(jacobians, 2, axis=(1, 2)))
        signs = L1Output().vertices(jacobians.shape[2])
        assert signs is not None  # they are few: the problem is `able`
        return np.asarray(lengths(jacobians @ signs.T, axis=1).max(axis=1))

    def relaxed(self, phases: PhaseBatch) -> FloatArray:
        """Upper bounds (n,) of the norms of all patterns that fit `phases` (n, N)."""
        if self.targets.rows[0] != ALL:
            network, norm = self.problem.tangent_network, self.problem.input_norm
            rows = self.targets.functionals
            each = (gradient_norms(network, phases, row, norm) for row in rows)
            return np.asarray(np.maximum.reduce(list(each)))
        rows = np.asarray(self.targets.functionals @ self.network.head.weight)
        room = gamma(self.terms) * (
            np.abs(self.targets.functionals) @ np.asarray(self.network.head.sizes)
        )
        layers = self.problem.tangent_network.hidden
        sizes = gradient_sizes(layers, phases, rows - room, rows + room)
        return np.asarray(self.targets.interval(sizes).max(axis=1))

    def preactivations(self, points: FloatArray) -> FloatArray:
        """Pre-activations (..., N) at points (..., d)."""
        return np.concatenate(self.network.preactivations(points), axis=-1)

    def forms(self, on: BoolArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Pre-activations of units (n, k) under patterns (n, N): ``A x + b``, (n, k, d), (n, k)."""
        hidden = self.network.hidden
        start = FloatSignal.inputs(self.network.input_dim)
        signals = carry(start, hidden, decided(hidden, self._sides(on)))
        found = [
            np.broadcast_to(np.asarray(z.matrix), (len(on), layer.units, start.width))
            for layer, z in zip(hidden, signals, strict=True)
        ]
        every = np.concatenate(found, axis=1)
        picked = np.take_along_axis(every, units[:, :, None], axis=1)
        return picked[:, :, :-1], picked[:, :, -1]
