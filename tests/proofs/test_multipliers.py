"""Multipliers prove what the matrix of the page proves, computed entry by entry in rationals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from lipyomo_check.formats import FORMAT
from lipyomo_check.layers import Layers
from lipyomo_check.linear import LEFT, OPEN, RIGHT, Linear
from lipyomo_check.parts import rational
from lipyomo_check.semidefinite import Tangents
from lipyomo_check.statement import Statement, read_statement

Row = list[fmpq]


def stated(rng: np.random.Generator, sizes: list[int], norm: str, output: Any) -> Statement:
    """A statement about a random network with two slopes a unit."""
    layers = []
    for i, (d, n) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        slopes = np.ones((2, n)) if last else rng.uniform([[-0.3], [0.5]], [[0.3], [1.5]], (2, n))
        layer = {"inputs": d, "weight": rng.standard_normal((n, d)).tolist(), "bias": [0.0] * n}
        layers.append(layer | {"left": slopes[0].tolist(), "right": slopes[1].tolist()})
    box = {"lower": [-1.0] * sizes[0], "upper": [1.0] * sizes[0], "A": [], "b": [], "ball": None}
    ends = {"lower": 0.0, "upper": 1.0, "onnx": None, "format": FORMAT}
    return read_statement(
        ends | {"network": layers, "domain": box, "input_norm": norm, "output_norm": output}
    )


def rows_of(statement: Statement, phases: list[int]) -> tuple[list[Row], list[Row]]:
    """Unstable units' and outputs' tangents in (v, s), one unit after the other."""
    d, count = statement.inputs, phases.count(OPEN)
    below = [[fmpq(int(j == k)) for j in range(d + count)] for k in range(d)]
    rows: list[Row] = []
    place = iter(phases)
    for layer in statement.layers:
        tangents = [
            [sum((rational(w) * t[j] for w, t in zip(row, below, strict=True)), fmpq(0))
             for j in range(d + count)]
            for row in layer.rows
        ]  # fmt: skip
        if layer is statement.layers[-1]:
            return rows, tangents
        below = []
        for k, tangent in enumerate(tangents):
            phase, left, right = next(place), rational(layer.left[k]), rational(layer.right[k])
            passed = [(right if phase == RIGHT else left) * t for t in tangent]
            if phase == OPEN:
                passed[d + len(rows)] += right - left
                rows.append(tangent)
            below.append(passed)
    raise AssertionError


def matrix(rows: list[Row], Y: list[Row], zeta: list[int], lam: list[int], corner: fmpq) -> Any:
    """The matrix of the page."""
    d, size = len(zeta), len(zeta) + len(lam)
    M = fmpq_mat(size + len(Y), size + len(Y))
    for j, z in enumerate(zeta):
        M[j, j] += z
    for k, (row, weight) in enumerate(zip(rows, lam, strict=True)):
        M[d + k, d + k] += weight
        for j, u in enumerate(row):
            M[d + k, j] -= weight * u / 2
            M[j, d + k] -= weight * u / 2
    for i, y in enumerate(Y):
        M[size + i, size + i] = corner
        for j, value in enumerate(y):
            M[size + i, j] = M[j, size + i] = value
    return M


def definite(M: Any) -> bool:
    n = M.nrows()
    parts = (fmpq_mat([[M[i, j] for j in range(k)] for i in range(k)]) for k in range(1, n + 1))
    return all(part.det() > 0 for part in parts)


@pytest.mark.parametrize("sizes", [[3, 4, 3, 2], [6, 3, 3, 2], [2, 5, 2]])
@pytest.mark.parametrize(("norm", "output"), [("linf", "linf"), ("l2", "l2"), ("l1", "linf")])
@pytest.mark.parametrize("side", [None, LEFT, RIGHT])
def test_what_multipliers_prove(sizes: list[int], norm: str, output: str, side: int | None) -> None:
    rng = np.random.default_rng(len(sizes) + sizes[0])
    statement = stated(rng, sizes, norm, output)
    linear = Linear(statement)
    node = linear.root()
    node.phases = [int(p) for p in rng.choice([OPEN, OPEN, RIGHT, LEFT], linear.count)]
    node.phases[0] = OPEN
    rows, outputs = rows_of(statement, node.phases)
    zeta = [int(z) for z in rng.integers(50, 100, sizes[0] if norm == "linf" else 1)]
    lam = [int(v) for v in rng.integers(5, 20, len(rows))]
    vertex = None if output == "l2" else 1
    target = vertex, (1 if norm == "l1" else None)
    Y = outputs if vertex is None else [outputs[vertex]]
    sides = None
    if side is not None:
        sides = [(0, side, 0.375)]
        if vertex is None:  # a multiple is taken from one functional
            assert not Tangents(statement, linear, node).holds(1e6, target, zeta, lam, sides)
            return
        fixed = [fmpq(int(j == sizes[0])) for j in range(len(Y[0]))]  # s_0 = 0, or u_0 - s_0 = 0
        if side == RIGHT:
            fixed = [u - e for u, e in zip(rows[0], fixed, strict=True)]
        Y = [[y - fmpq(3, 8) * e for y, e in zip(Y[0], fixed, strict=True)]]
    own = list(range(sizes[0])) if target[1] is None else [1]
    kept = [*own, *range(sizes[0], sizes[0] + len(rows))]
    rows, Y = ([[row[j] for j in kept] for row in part] for part in (rows, Y))
    all_zeta = zeta if norm == "linf" else zeta * len(own)
    tau = fmpq(sum(all_zeta) if norm == "linf" else zeta[0])

    def exactly(bound: float) -> bool:
        return definite(matrix(rows, Y, all_zeta, lam, rational(bound) ** 2 / tau))

    tangents = Tangents(statement, linear, node)
    low, high = 0.0, 1e6
    if not exactly(high):
        assert not tangents.holds(high, target, zeta, lam, sides)
        return
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if exactly(middle) else (middle, high)
    for share in (1e-15, 1e-12, 1e-9, 1e-6, 1e-2):
        assert not tangents.holds(low * (1.0 - share), target, zeta, lam, sides)
    assert tangents.holds(high * (1.0 + 1e-14), target, zeta, lam, sides)


@pytest.mark.parametrize("sizes", [[3, 4, 3, 2], [6, 3, 3, 2], [2, 5, 2], [4, 2, 1, 3, 2]])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("output", ["linf", "l2"])
def test_what_multipliers_prove_layer_by_layer(sizes: list[int], norm: str, output: str) -> None:
    """The same: elimination meets definite matrices only if the whole one is definite."""
    rng = np.random.default_rng(len(sizes) + sizes[0])
    statement = stated(rng, sizes, norm, output)
    linear = Linear(statement)
    node = linear.root()
    node.phases = [int(p) for p in rng.choice([OPEN, OPEN, RIGHT, LEFT], linear.count)]
    node.phases[0] = OPEN
    rows, outputs = rows_of(statement, node.phases)
    zeta = [int(z) for z in rng.integers(50, 100, sizes[0] if norm == "linf" else 1)]
    lam = [int(v) for v in rng.integers(5, 20, len(rows))]
    target = (None if output == "l2" else 1), None
    Y = outputs if output == "l2" else [outputs[1]]
    every = zeta if norm == "linf" else zeta * sizes[0]
    tau = fmpq(sum(zeta))

    def exactly(bound: float) -> bool:
        return definite(matrix(rows, Y, every, lam, rational(bound) ** 2 / tau))

    layers = Layers(statement, linear, node)
    low, high = 0.0, 1e6
    if not exactly(high):
        assert not layers.holds(high, target, zeta, lam)
        return
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if exactly(middle) else (middle, high)
    for share in (1e-15, 1e-12, 1e-9, 1e-6, 1e-2):
        assert not layers.holds(low * (1.0 - share), target, zeta, lam)
    assert layers.holds(high * (1.0 + 1e-12), target, zeta, lam)
    assert layers.holds(high * (1.0 + 1e-12), target, [3 * z for z in zeta], [3 * v for v in lam])
    for wrong in ((zeta, lam[:-1]), (zeta, [0, *lam[1:]]), ([*zeta, 1], lam)):
        assert not layers.holds(2.0 * high, target, *wrong)
    assert not layers.holds(2.0 * high, (target[0], 0), zeta, lam)
