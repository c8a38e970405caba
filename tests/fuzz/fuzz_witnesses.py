"""Witnesses of all questions, evaluated again at x + rest in rational numbers of Python's own.

Networks have kinks that nearly coincide, so that some pieces hold no float64 point at all, and
boxes may be a few float64 numbers wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from fuzz_networks import Rng, chain, normals, tenths
from fuzz_oracle import PlainLayer
from fuzz_thin import with_kinks_near

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Polytope
from lipyomo.problems.result import Point

ROOM = Fraction(1, 10**12)
"""Of norms, whose witnesses are rounded in their last places."""


@dataclass
class Sample:
    """A drawn network on a box."""

    layers: list[PlainLayer]
    low: np.ndarray
    high: np.ndarray

    @property
    def network(self) -> Network:
        """The network."""
        return Network(
            lipyomo.Layer(one.weight, one.bias, one.left, one.right) for one in self.layers
        )

    @property
    def box(self) -> Box:
        """The domain."""
        return Box(self.low, self.high)


def with_twins(layers: list[PlainLayer], rng: Rng) -> None:
    """Add units to the first layer whose kinks coincide with others' but for rounding."""
    first, after = layers[0], layers[1]
    weight, bias, left, right = first.weight, first.bias, first.left, first.right
    wide = after.weight
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(0, len(first.weight)))
        factor = float(rng.choice([3.0, -3.0, 0.3, 7.0, -1.1]))
        row, shift = factor * first.weight[at], factor * first.bias[at]
        weight, bias = np.vstack([weight, row]), np.append(bias, shift)
        left, right = np.append(left, first.left[at]), np.append(right, first.right[at])
        new = (
            -after.weight[:, [at]] / factor
            if rng.random() < 0.6
            else rng.normal(size=(len(wide), 1))
        )
        wide = np.hstack([wide, np.asarray(new)])
    layers[0] = PlainLayer(weight, bias, left, right)
    layers[1] = PlainLayer(wide, after.bias, after.left, after.right)


def draw(seed: int) -> Sample:
    """A network and a box."""
    rng = np.random.default_rng([seed, 38])
    depth = int(rng.integers(1, 3))
    d, m = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    sizes = (d, *(int(rng.integers(1, 4)) for _ in range(depth)), m)
    weights = [normals, tenths][int(rng.integers(0, 2))]
    layers = chain(
        rng, sizes, weights, lambda r, n: 0.5 * normals(r, (n,)), mixed=rng.random() < 0.3
    )
    center = rng.uniform(-1, 1, d)
    if rng.random() < 0.6:
        with_kinks_near(layers, center, float(10.0 ** -rng.uniform(1, 17)), rng)
    if rng.random() < 0.8:
        with_twins(layers, rng)
    if rng.random() < 0.5:
        return Sample(layers, -2.0 * np.ones(d), 2.0 * np.ones(d))
    reach = 10.0 ** -rng.uniform(1, 16, d)
    low, high = center - reach, center + reach
    return Sample(layers, low, np.maximum(high, np.nextafter(np.nextafter(low, 9.0), 9.0)))


def slopes_at(layers: Sequence[PlainLayer], x: Sequence[Fraction]) -> list[list[Fraction]] | None:
    """The Jacobian at a point; None at a kink that moves."""
    h, d = list(x), len(x)
    J = [[Fraction(int(i == j)) for j in range(d)] for i in range(d)]
    for layer in layers:
        rows = [[Fraction(float(w)) for w in row] for row in layer.weight]
        z = [
            sum((w * v for w, v in zip(row, h, strict=True)), Fraction(float(b)))
            for row, b in zip(rows, layer.bias, strict=True)
        ]
        G = [
            [sum((w * J[k][j] for k, w in enumerate(row)), Fraction(0)) for j in range(d)]
            for row in rows
        ]
        h, J = [], []
        for value, g, a, b in zip(z, G, layer.left, layer.right, strict=True):
            if value == 0 and any(g) and a != b:
                return None
            slope = Fraction(float(a if value < 0 else b))
            h.append(slope * value)
            J.append([slope * entry for entry in g])
    return J


def value_of(layers: Sequence[PlainLayer], x: Sequence[Fraction]) -> list[Fraction]:
    """The outputs at a point."""
    h = list(x)
    for layer in layers:
        z = [
            sum((Fraction(float(w)) * v for w, v in zip(row, h, strict=True)), Fraction(float(b)))
            for row, b in zip(layer.weight, layer.bias, strict=True)
        ]
        h = [
            Fraction(float(a if v < 0 else b)) * v
            for v, a, b in zip(z, layer.left, layer.right, strict=True)
        ]
    return h


def faults(seed: int) -> list[str]:
    """What is wrong with the witnesses of a sample's answers."""
    sample = draw(seed)
    return [f"{seed}: {fault}" for fault in _faults(sample, np.random.default_rng(seed))]


def _faults(sample: Sample, rng: Rng) -> Iterator[str]:
    layers, box = sample.layers, sample.box
    problem = LipschitzProblem(sample.network, box, "linf", "linf")
    found = lipyomo.solve(problem, time_limit=2)
    if found.witness is not None:
        yield from _norm("solve", sample, found.witness, found.lower)
        if found.lower > found.upper:
            yield "solve: ends cross"
    ranges = lipyomo.jacobian_ranges(problem, time_limit=2)
    for i, row in enumerate(ranges.entries):
        for j, entry in enumerate(row):
            for at, end, sign in zip(
                entry.witnesses, (entry.low[1], entry.high[0]), (-1, 1), strict=True
            ):
                yield from _slope(f"entry {i}, {j}", sample, at, end, sign, [(i, j, Fraction(1))])
    functional, v = (
        rng.integers(-2, 3, len(layers[-1].weight)) + 0.5,
        rng.normal(size=box.dimension),
    )
    along = [
        (i, j, Fraction(float(c)) * Fraction(float(w)))
        for i, c in enumerate(functional)
        for j, w in enumerate(v)
    ]
    one = lipyomo.derivative_range(problem, functional, v, time_limit=2)
    for at, end, sign in zip(one.witnesses, (one.low[1], one.high[0]), (-1, 1), strict=True):
        yield from _slope("derivative", sample, at, end, sign, along)
    A, b = rng.integers(-1, 2, (box.dimension,) * 2) + 0.0, rng.normal(size=box.dimension)
    lie = lipyomo.lie_derivative(sample.network, (A, b), box, functional, time_limit=2)
    for at, end, sign in zip(lie.witnesses, (lie.low[1], lie.high[0]), (-1, 1), strict=True):
        if at is not None:
            x = at.exactly
            g = [
                sum(
                    (Fraction(float(a)) * y for a, y in zip(row, x, strict=True)),
                    Fraction(float(c)),
                )
                for row, c in zip(A, b, strict=True)
            ]
            field = [
                (i, j, Fraction(float(c)) * w)
                for i, c in enumerate(functional)
                for j, w in enumerate(g)
            ]
            yield from _slope("lie", sample, at, end, sign, field)
    ends = lipyomo.value_range(sample.network, box, functional, time_limit=2)
    for at, end, sign in zip(ends.witnesses, (ends.low[1], ends.high[0]), (-1, 1), strict=True):
        if at is not None:
            outputs = zip(functional.tolist(), value_of(layers, at.exactly), strict=True)
            value = sum((Fraction(c) * y for c, y in outputs), Fraction(0))
            if sign * value < sign * Fraction(end):
                yield f"value: {end} is not attained"
    cells = lipyomo.map_cells(problem, [box], time_limit=2)
    yield from _norm("map", sample, cells.point(0), float(cells.constant_lower[0]))
    yield from _rows(sample, problem)
    yield from _cut(sample, rng)


def _rows(sample: Sample, problem: LipschitzProblem) -> Iterator[str]:
    """Two boxes that share their network are bounded together first: the box, and half of it."""
    middle = 0.5 * (sample.low + sample.high)
    halves = [box for box in (sample.box, Box(sample.low, middle)) if (middle > sample.low).all()]
    problems = [LipschitzProblem(problem.network, box, "linf", "linf") for box in halves]
    for row in lipyomo.sweep(problems, workers=1, time_limit=2):
        if row.result is not None and row.result.witness is not None:
            yield from _norm(f"sweep {row.index}", sample, row.result.witness, row.result.lower)


def _cut(sample: Sample, rng: Rng) -> Iterator[str]:
    """A half-space through the box, so that pieces are polytopes with other faces."""
    row = rng.normal(size=(1, len(sample.low)))
    limit = row @ rng.uniform(sample.low, sample.high)
    domain = Polytope(row, limit, sample.low, sample.high)
    try:
        found = lipyomo.solve(LipschitzProblem(sample.network, domain), time_limit=2)
    except lipyomo.LipyomoError:  # too thin for an interior point
        return
    if found.witness is not None:
        yield from _norm("polytope", sample, found.witness, found.lower)
        products = zip(row[0].tolist(), found.witness.exactly, strict=True)
        if sum((Fraction(a) * x for a, x in products), Fraction(0)) > Fraction(float(limit[0])):
            yield f"polytope: {found.witness} is outside"


def _inside(sample: Sample, x: Sequence[Fraction]) -> bool:
    ends = zip(sample.low.tolist(), x, sample.high.tolist(), strict=True)
    return all(Fraction(low) <= y <= Fraction(high) for low, y, high in ends)


def _norm(name: str, sample: Sample, at: Point, end: float) -> Iterator[str]:
    """Whether the norm from linf to linf is attained."""
    J = slopes_at(sample.layers, at.exactly)
    if end == 0.0:
        return
    if J is None or not _inside(sample, at.exactly):
        yield f"{name}: {at} is at a kink, or outside"
    elif max(sum(map(abs, row), Fraction(0)) for row in J) < Fraction(end) * (1 - ROOM):
        yield f"{name}: {end} is not attained at {at}"


def _slope(
    name: str,
    sample: Sample,
    at: Point | None,
    end: float,
    sign: int,
    terms: list[tuple[int, int, Fraction]],
) -> Iterator[str]:
    """Whether a sum of entries reaches an end."""
    if at is None:
        return
    J = slopes_at(sample.layers, at.exactly)
    if J is None or not _inside(sample, at.exactly):
        yield f"{name}: {at} is at a kink, or outside"
    elif sign * sum((c * J[i][j] for i, j, c in terms), Fraction(0)) < sign * Fraction(end):
        yield f"{name}: {end} is not attained at {at}"
