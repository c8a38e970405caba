"""The data that stay fixed while cells of a piecewise-linear network are bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.analyses.maps.measure import Measure
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.memory import BATCH, CACHED
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import flat, open_phases
from lipyomo.primal.heuristics.evaluate import jacobian_rows
from lipyomo.problems.affine.signal import FloatSignal, carry, decided
from lipyomo.problems.affine.system import term_sizes
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.linear.layers import PhaseBatch, by_layer
from lipyomo.search.engine.params import BUNDLE, HALVED
from lipyomo.search.spaces.boxes.context import box_bytes

SLICE_BYTES = 4 * CACHED
"""Bytes of the largest array of boxes that are bounded at a time.

Less overhead for each box against cache, and against the time until a limit is noticed.
"""

PATTERN_WORK = 1 << 21
"""A box is bisected if all its patterns would take more multiplications: norms against boxes."""

INPUTS = HALVED
"""Most inputs for which boxes are bisected and patterns tested; with more this hardly pays."""


@dataclass(frozen=True, eq=False)
class PatternSizes:
    """Evaluates a measure of patterns' Jacobians, with bounds of its rounding errors.

    Attributes
    ----------
    measure : Measure
    """

    measure: Measure

    @property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return self.measure.targets

    @property
    def network(self) -> Network:
        """The network, with the problem's directions as inputs."""
        return self.measure.problem.tangent_network

    @cached_property
    def terms(self) -> int:
        """Total length of all sums from the inputs to an output, and back."""
        sizes = self.measure.problem.network.sizes
        return 2 * (sum(sizes) + 4 * len(sizes)) + sum(self.targets.functionals.shape)

    def relaxed(self, phases: PhaseBatch) -> FloatArray:
        """Bound the norms (n,) of all patterns in `phases` (n, N) from above."""
        return self.measure.relaxed(phases, self.terms)

    def norms(self, on: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Compute norms (n,) of full patterns (n, N), and bounds of their errors."""
        values = np.empty(len(on))
        for part in self.chunks(len(on), 1):
            sides = sides_of(self.network, on[part])
            rows = jacobian_rows(self.network, sides, self.targets.functionals)
            values[part] = self.measure.sizes(rows)
        return values, self._errors(values, lambda weak: on[weak])

    def all_norms(self, on: BoolArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Compute norms (n, 2^k) of all patterns of the k units (n, k), and bounds of their errors.

        The other units are as in `on` (n, N).  The index of a pattern has one bit for each unit,
        the first unit's being the lowest (`with_sides`).
        """
        count, k = units.shape
        values = np.empty((count, 1 << k))
        ends = np.cumsum([0, *(layer.units for layer in self.network.hidden)])
        places = np.searchsorted(ends, units, side="right") - 1
        shares = (places[:, :, None] == np.arange(len(ends) - 1)).sum(axis=1)
        kinds, kind = np.unique(shares, axis=0, return_inverse=True)
        for number, shared in enumerate(kinds):
            which = np.flatnonzero(kind.reshape(-1) == number)
            for part in self.chunks(which.size, 1 << k):
                some = which[part]
                rows = self._of_all_patterns(on[some], units[some], shared.tolist(), ends)
                found = self.measure.sizes(rows.reshape(-1, *rows.shape[2:]))
                values[some] = found.reshape(len(some), -1)

        def of(weak: IntArray) -> BoolArray:
            return with_sides(on[weak >> k], units[weak >> k], weak & ((1 << k) - 1))

        return values, self._errors(values.reshape(-1), of).reshape(values.shape)

    def _of_all_patterns(
        self, on: BoolArray, units: IntArray, shared: list[int], ends: IntArray
    ) -> FloatArray:
        """Compute Jacobians (n, 2^k, rows, d) of all patterns of units; `shared` counts by layer.

        It goes backwards layer by layer, so patterns of later layers share their products.
        """
        hidden = self.network.hidden
        rows = np.asarray(self.targets.functionals @ self.network.head.dense_weight)
        g = np.broadcast_to(rows, (len(on), 1, *rows.shape))
        last = units.shape[1]
        for layer, few, end in zip(reversed(hidden), shared[::-1], ends[:0:-1], strict=True):
            start, last = end - layer.units, last - few
            own = units[:, last : last + few] - start
            slopes = np.where(on[:, start:end], layer.right, layer.left)
            np.put_along_axis(slopes, own, 0.0, axis=1)
            weight = layer.dense_weight
            base = (g * slopes[:, None, None]) @ weight
            if few:
                left, right = layer.left[own][:, None], layer.right[own][:, None]
                chosen = np.where(_bits(few), right, left)  # (n, 2^few, few)
                picked = np.take_along_axis(g, own[:, None, None], axis=3)
                terms = picked[:, :, None] * chosen[:, None, :, None]
                shape = (len(on), -1, *rows.shape[:1], weight.shape[1])
                added = terms.reshape(len(on), -1, few) @ weight[own]
                base = (base[:, :, None] + added.reshape(*terms.shape[:4], -1)).reshape(shape)
            g = base
        return g

    def _errors(self, values: FloatArray, on: Callable[[IntArray], BoolArray]) -> FloatArray:
        """Bound the errors of norms (n,); `on` gives patterns, for those with cancellation."""
        errors = np.full(len(values), self._largest)
        weak = np.flatnonzero(self.measure.weak(values, errors))
        for part in self.chunks(weak.size, 1):
            errors[weak[part]] = self._errors_of(sides_of(self.network, on(weak[part])))
        return errors

    @cached_property
    def _largest(self) -> float:
        """Bound of the error of any pattern's norm."""
        # it grows with the slopes, so the steeper one of each unit gives the largest
        steeper = [np.abs(layer.right) >= np.abs(layer.left) for layer in self.network.hidden]
        return float(self._errors_of([side[None] for side in steeper])[0])

    def _errors_of(self, sides: Sequence[BoolArray]) -> FloatArray:
        """Bound the errors of patterns' norms (n,): of sums of products, and of singular values."""
        sizes = jacobian_rows(self._magnitudes, sides, np.abs(self.targets.functionals))
        return self.measure.errors(sizes, self.terms)

    @cached_property
    def _magnitudes(self) -> Network:
        """The network with absolute values of weights and slopes."""
        return Network(
            Layer(layer.sizes, np.abs(layer.bias), np.abs(layer.left), np.abs(layer.right))
            for layer in self.network.layers
        )

    def chunks(self, count: int, each: int) -> Iterator[slice]:
        """Divide `count` items with `each` patterns into slices whose arrays fit into the cache."""
        widest = max(self.network.sizes) * len(self.targets.functionals)
        step = max(1, CACHED // 8 // (widest * each))
        return (slice(at, at + step) for at in range(0, count, step))


@dataclass(frozen=True, eq=False)
class Pieces:
    """A piecewise-linear problem whose cells are to be bounded.

    Attributes
    ----------
    measure : Measure
        The measure of patterns' Jacobians that is bounded.
    """

    measure: Measure

    @property
    def problem(self) -> LipschitzProblem:
        """The problem over a box that contains all cells, without frozen inputs."""
        return self.measure.problem

    @property
    def network(self) -> Network:
        """The network."""
        return self.problem.network

    @cached_property
    def sizes(self) -> PatternSizes:
        """Evaluates the measure for patterns."""
        return PatternSizes(self.measure)

    @cached_property
    def open(self) -> PhaseBatch:
        """Phases (N,) with all kinked units open."""
        return flat(open_phases(self.network))

    @cached_property
    def together(self) -> int:
        """Number of boxes that are bounded at a time."""
        each = box_bytes(self.problem)
        return int(np.clip(SLICE_BYTES // each, 1, BUNDLE))

    @cached_property
    def most_open(self) -> int:
        """Most unstable units for which all patterns of a box are enumerated and kept in memory."""
        rows = len(self.measure.targets.functionals)
        work = rows * sum(layer.weight.size for layer in self.network.layers)
        share = max(PATTERN_WORK // max(work, 1), 1)
        return min(share, BATCH // (8 * self.together)).bit_length() - 1

    @cached_property
    def errors(self) -> FloatArray:
        """Bounds of the errors of pre-activations (N,) at any point of the box, with a margin.

        A pre-activation at a point, and its affine form under any pattern, are sums of products
        along paths, with errors of gamma times the sums of the absolute products.  Four times that
        also covers sums over the forms (`inside`).
        """
        domain = self.problem.domain
        reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        sizes = np.concatenate([np.zeros(0), *term_sizes(self.network.hidden, reach)])
        return np.maximum(4.0 * gamma(self.sizes.terms) * sizes, np.finfo(np.float64).tiny)

    def preactivations(self, points: FloatArray) -> FloatArray:
        """Compute pre-activations (..., N) at points (..., d)."""
        return np.concatenate(self.network.preactivations(points), axis=-1)

    def forms(self, on: BoolArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Pre-activations ``A x + b`` of units (n, k) under patterns (n, N): (n, k, d), (n, k)."""
        hidden = self.network.hidden
        start = FloatSignal.inputs(self.network.input_dim)
        signals = carry(start, hidden, decided(hidden, sides_of(self.network, on)))
        found = [
            np.broadcast_to(np.asarray(z.matrix), (len(on), layer.units, start.width))
            for layer, z in zip(hidden, signals, strict=True)
        ]
        every = np.concatenate(found, axis=1)
        picked = np.take_along_axis(every, units[:, :, None], axis=1)
        return picked[:, :, :-1], picked[:, :, -1]


def sides_of(network: Network, on: BoolArray) -> list[BoolArray]:
    """Split patterns (n, N) by layer."""
    return [np.ascontiguousarray(part) for part in by_layer(network.hidden, on)]


def with_sides(on: BoolArray, units: IntArray, numbers: IntArray) -> BoolArray:
    """Return patterns `on` (n, N) with the units (n, k) set to the bits of the numbers (n,)."""
    found = on.copy()
    bits = (numbers[:, None] >> np.arange(units.shape[1])) & 1
    np.put_along_axis(found, units, bits.astype(bool), axis=1)
    return found


def _bits(k: int) -> BoolArray:
    """Return all patterns (2^k, k) of k units."""
    return ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)
