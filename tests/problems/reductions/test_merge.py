"""Units that are multiples of each other: fewer kinks, the same function."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo import Box, Layer, LipschitzProblem, Network, solve
from lipyomo.problems.reductions.merge import merge


def kinks(network: Network) -> int:
    return merge(network.fused()).network.kinked_units


def test_duplicates_share_one_kink() -> None:
    rows = [[1.0, -0.5], [2.0, -1.0], [-1.0, 0.5], [0.3, 1.0]]
    network = Network([Layer(rows, [0.25, 0.5, -0.25, 0.0], 0.0, 1.0), Layer(np.ones((1, 4)), [0])])
    small = merge(network.fused()).network
    assert small.kinked_units == 2
    points = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    np.testing.assert_allclose(small.forward(points), network.forward(points), rtol=1e-14)


def test_other_slopes_and_sparse_weights() -> None:
    rng = np.random.default_rng(1)
    row = rng.standard_normal(3)
    first = Layer(sp.csr_array(np.outer([1.0, -2.0, 4.0], row)), [0.5, -1.0, 2.0], [0.0, -1.0, 3.0],
                  [1.0, 1.0, -1.0])  # fmt: skip
    network = Network([first, Layer(rng.standard_normal((2, 3)), [0.1, 0.2])])
    small = merge(network.fused()).network
    assert small.kinked_units == 1
    points = rng.uniform(-2, 2, (50, 3))
    np.testing.assert_allclose(small.forward(points), network.forward(points), atol=1e-12)


@pytest.mark.parametrize(
    "rows",
    [
        [[0.1], [0.1 * 3]],  # not three times, but for rounding
        [[1.0], [1.0]],  # other biases
        [[1.0, 0.0], [0.0, 1.0]],
    ],
)
def test_what_only_looks_alike_stays(rows: list[list[float]]) -> None:
    bias = [0.3, 0.9] if rows[1] == [0.1 * 3] else [0.0, 0.5]
    network = Network([Layer(rows, bias, 0.0, 1.0), Layer([[1.0, 1.0]], [0.0])])
    assert kinks(network) == 2


def test_a_share_that_is_no_float64_number_stays() -> None:
    # slopes (0.1, 1) and (0, 1): P = 1 / 0.9 is no float64 number
    first = Layer([[1.0], [1.0]], [0.0, 0.0], [0.1, 0.0], 1.0)
    assert kinks(Network([first, Layer([[1.0, 1.0], [1.0, 0.0]], [0, 0])])) == 2
    # one reader sees one unit, with slopes (0.05, 1)
    assert kinks(Network([first, Layer([[1.0, 1.0]], [0])])) == 1


def test_the_identity_written_as_relus_is_none() -> None:
    # x = relu(x) - relu(-x), eight layers deep: no kink is left to branch on
    pair = Layer([[1.0], [-1.0]], [0.0, 0.0], 0.0, 1.0)
    back = Layer([[1.0, -1.0], [-1.0, 1.0]], [0.0, 0.0], 0.0, 1.0)
    network = Network([pair, *[back] * 7, Layer([[1.0, -1.0]], [0.0])])
    result = solve(LipschitzProblem(network, Box(-1, 1, 1)))
    assert result.is_exact
    assert (result.lower, result.upper) == (1.0, pytest.approx(1.0, rel=1e-9))
    assert result.nodes == 0


def test_a_layer_that_becomes_affine_vanishes() -> None:
    network = Network([Layer([[1.0], [-1.0]], [0.5, -0.5], 0.0, 1.0), Layer([[3.0, -3.0]], [0.0])])
    small = merge(network.fused()).network
    assert not small.hidden
    assert small.forward([2.0]) == network.forward([2.0])


def test_two_relus_are_one_leaky_unit_where_all_readers_agree() -> None:
    # relu(z) - 0.7 relu(-z), read with weights that would round times 0.7
    pair = Layer([[1.0, 3.0], [-1.0, -3.0]], [0.5, -0.5], 0.0, 1.0)
    both = Layer([[1.0, -0.7]], [0.0])
    network = Network([pair, both, Layer([[0.3], [1.1]], [0.0, 1.0])])
    small = merge(network.fused()).network
    assert small.sizes == (2, 1, 2)
    assert [small.hidden[0].left[0], small.hidden[0].right[0]] == [0.7, 1.0]
    # another reader sees other slopes: an identity stands beside the unit
    network = Network([pair, Layer([[1.0, -0.7], [0.0, 1.0]], [0.0, 0.0])])
    assert kinks(network) == 1


def test_a_unit_without_inputs_has_no_kink() -> None:
    layer = Layer([[0.0], [1.0]], [-0.5, 0.0], 0.25, 1.0)
    network = Network([layer, Layer([[1.0, 1.0]], [0.0])])
    assert network.fused().kinked_units == 1
    assert network.fused().forward([[2.0], [-2.0]]).tolist() == [[1.875], [-0.625]]
