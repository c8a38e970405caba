"""Gated sums: what they are means of, and what rounding leaves of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lipyomo.networks.gates import AffineRows, gated_sums

UNIT = Fraction(1, 2**53)


def test_biases_that_cancel_are_off_by_their_sizes_only() -> None:
    rng = np.random.default_rng(1)
    n = 6
    eye, none = np.eye(n), np.zeros((n, n))
    large = rng.normal(size=n) * 1e8
    units = AffineRows(np.hstack([eye, none]), large)
    gate = AffineRows(np.hstack([none, eye]), rng.normal(size=n))
    change = AffineRows(np.hstack([-eye, none]), rng.normal(size=n) / 3)
    after = AffineRows(np.hstack([eye, eye]), rng.normal(size=n) - large)
    gates = gated_sums(after, units, np.ones(n, dtype=bool), gate, change)
    assert gates is not None
    assert gates.rows.tolist() == list(range(n))
    for k in range(n):
        first = Fraction(after.bias[k]) + Fraction(large[k])
        second = first + Fraction(change.bias[k])
        for exact, found, sizes in zip(
            (first, second), gates.biases, gates.bias_sizes, strict=True
        ):
            assert abs(exact - Fraction(found[k])) <= 4 * UNIT * Fraction(sizes[k])
    assert np.abs(gates.biases[0]).max() < 10.0
    assert gates.bias_sizes[0].max() > 1e6


def test_sums_that_are_no_means_are_none() -> None:
    eye = np.eye(2)
    units, gate = AffineRows(eye, np.zeros(2)), AffineRows(np.array([[0.0, 1.0]]), np.zeros(1))
    for change in ([[3.0, 0.0]], [[0.0, 1.0]]):  # by no power of two; of another signal
        other = AffineRows(np.array(change), np.zeros(1))
        after = AffineRows(np.array([[1.0, 0.0, 1.0]]), np.zeros(1))
        assert gated_sums(after, units, np.array([True, True]), gate, other) is None
    after = AffineRows(np.array([[1.0, 0.0, 1.0]]), np.zeros(1))
    half = AffineRows(np.array([[-0.5, 0.0]]), np.zeros(1))
    found = gated_sums(after, units, np.array([True, True]), gate, half)
    assert found is not None
    assert (found.scale[0], found.weights[1][0].tolist()) == (0.5, [0.0, 0.0])
    assert gated_sums(after, units, np.array([False, True]), gate, half) is None
