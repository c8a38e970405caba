"""The data that stay fixed while cells of a piecewise-linear network are bounded.

Measures of patterns' Jacobians are bounded: operator norms, and for the ranges of all entries over
a box the largest *excess*: by how much an entry, or its negative, exceeds its largest value known
to be attained, in units of the entry's tolerance.  A box is closed once no entry's excess is above
a share of one.  Values at points that exceed it count as attained from then on, for the remaining
boxes.  A bound of the excess remains valid, since attained values only grow.  So all entries share
ranges of pre-activations, patterns and tests of emptiness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, lengths
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.base.system.memory import BATCH, CACHED
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import flat, open_phases
from lipyomo.primal.heuristics.evaluate import jacobian_rows
from lipyomo.problems.affine.signal import FloatSignal, carry, decided
from lipyomo.problems.affine.system import term_sizes
from lipyomo.problems.norms import L1Output
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.gradient import gradient_entries, gradient_norms
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
class PatternNorms:
    """Operator norms from the input norm to the output norm."""

    problem: LipschitzProblem

    @cached_property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return targets_of(self.problem)

    def able(self, most: int) -> bool:
        """Return whether they can be computed: linf to l2, by all signs, up to `most` inputs."""
        hard = self.targets.whole_ball and self.targets.norm == "linf"
        return not hard or self.problem.tangent_network.input_dim <= most

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """Compute the measure (n,) of Jacobians (n, k, d), up to rounding."""
        targets = self.targets
        if not targets.whole_ball or targets.by_column:
            return np.asarray(targets.interval(np.abs(jacobians)).max(axis=1))
        if targets.norm == "l2":
            return np.asarray(np.linalg.norm(jacobians, 2, axis=(1, 2)))
        signs = L1Output().vertices(jacobians.shape[2])
        assert signs is not None  # they are few: the problem is `able`
        return np.asarray(lengths(jacobians @ signs.T, axis=1).max(axis=1))

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """Bound the errors (n,) of `sizes`, for entries that are sums of `terms` terms.

        The sizes (n, k, d) are the sums of these terms' absolute values.  Includes the errors of
        singular values.
        """
        terms += 4 * sizes[0].size
        return np.asarray(gamma(terms) * self.targets.interval(sizes).max(axis=1))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """Return for which values (n,) errors (n,) of this size would matter."""
        return np.asarray(values * EQUAL < errors)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """Bound the measure (n,) over all patterns in `phases` (n, N); sums have `terms` terms."""
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


@dataclass(frozen=True, eq=False)
class Excess:
    """The excess of the entries of a Jacobian, ``rows . J T``, as a measure.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    attained : ndarray, shape (2, p, k)
        Largest attained values of the negatives of the entries, and of the entries.
    tolerance : ndarray, shape (p, k)
    enough : float
        Excess that closes a box, in tolerances.
    """

    problem: LipschitzProblem
    rows: FloatArray
    attained: FloatArray
    tolerance: FloatArray
    enough: float

    @cached_property
    def targets(self) -> Targets:
        """One target for each functional and each direction."""
        _, *_, m = self.problem.network.sizes
        return Targets.of(self.rows, m, self.problem.tangent_network.input_dim, "l1")

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """See `PatternNorms`."""
        return self._excess(jacobians, jacobians)

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """See `PatternNorms`."""
        lost = gamma(terms) * (sizes / self.tolerance).max(axis=(1, 2))
        return np.asarray(lost + self._room(sizes))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """See `PatternNorms`."""
        return np.asarray(errors > 0.25 * self.enough)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """See `PatternNorms`."""
        network = self.problem.tangent_network
        ranges = [gradient_entries(network, phases, row) for row in self.rows]
        low, high = (np.stack(ends, axis=1) for ends in zip(*ranges, strict=True))
        return self._excess(low, high) + self._room(np.maximum(np.abs(low), np.abs(high)))

    def _excess(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest excess (n,) of entries with ranges (n, p, k), in tolerances."""
        over = np.maximum(high - self.attained[1], -low - self.attained[0]) / self.tolerance
        return np.asarray(over.max(axis=(1, 2)))

    def _room(self, sizes: FloatArray) -> FloatArray:
        """Bound the rounding error (n,) of `_excess`, for entries of sizes (n, p, k)."""
        terms = (sizes + np.abs(self.attained).max(axis=0)) / self.tolerance
        return np.asarray(gamma(4) * terms.max(axis=(1, 2)))


Measure = PatternNorms | Excess
"""The quantity of a pattern's Jacobian that is bounded: a norm or a similar function."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A piecewise-linear problem whose cells are to be bounded.

    It evaluates the measure of patterns' Jacobians, with bounds of its rounding errors.

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

    @property
    def tangent(self) -> Network:
        """The network, with the problem's directions as inputs."""
        return self.problem.tangent_network

    @property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return self.measure.targets

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
        rows = len(self.targets.functionals)
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
        return np.maximum(4.0 * gamma(self.terms) * sizes, np.finfo(np.float64).tiny)

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

    @cached_property
    def terms(self) -> int:
        """Total length of all sums from the inputs to an output, and back."""
        sizes = self.network.sizes
        return 2 * (sum(sizes) + 4 * len(sizes)) + sum(self.targets.functionals.shape)

    def norms(self, on: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Compute norms (n,) of full patterns (n, N), and bounds of their errors."""
        values = np.empty(len(on))
        for part in self.chunks(len(on), 1):
            sides = sides_of(self.tangent, on[part])
            rows = jacobian_rows(self.tangent, sides, self.targets.functionals)
            values[part] = self.measure.sizes(rows)
        return values, self._errors(values, lambda weak: on[weak])

    def all_norms(self, on: BoolArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Compute norms (n, 2^k) of all patterns of the k units (n, k), and bounds of their errors.

        The other units are as in `on` (n, N).  The index of a pattern has one bit for each unit,
        the first unit's being the lowest (`with_sides`).
        """
        count, k = units.shape
        values = np.empty((count, 1 << k))
        ends = np.cumsum([0, *(layer.units for layer in self.tangent.hidden)])
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
        hidden = self.tangent.hidden
        rows = np.asarray(self.targets.functionals @ self.tangent.head.dense_weight)
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
            errors[weak[part]] = self._errors_of(sides_of(self.tangent, on(weak[part])))
        return errors

    @cached_property
    def _largest(self) -> float:
        """Bound of the error of any pattern's norm."""
        # it grows with the slopes, so the steeper one of each unit gives the largest
        steeper = [np.abs(layer.right) >= np.abs(layer.left) for layer in self.tangent.hidden]
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
            for layer in self.tangent.layers
        )

    def chunks(self, count: int, each: int) -> Iterator[slice]:
        """Divide `count` items with `each` patterns into slices whose arrays fit into the cache."""
        widest = max(self.tangent.sizes) * len(self.targets.functionals)
        step = max(1, CACHED // 8 // (widest * each))
        return (slice(at, at + step) for at in range(0, count, step))


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
