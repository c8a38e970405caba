"""Signed ranges of derivatives against all regions, samples, and what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import (
    AllSpace,
    Box,
    Curve,
    Layer,
    LipschitzProblem,
    Network,
    Status,
    activation,
    ball,
)
from lipyomo.analyses.questions.entry_ends import tilted
from lipyomo.base.errors import ProblemError
from networks import mixed_network, random_network, relu
from oracle import regions

TOLERANCE = 2e-6


def slopes(problem: LipschitzProblem, rows: np.ndarray, T: np.ndarray) -> np.ndarray:
    """``rows J T`` on every full-dimensional region, (n, p, k)."""
    network = problem.network
    found = regions(network, problem.domain)
    return np.array([rows @ network.jacobian(pattern) @ T for pattern, _ in found])


def smooth(seed: int, sizes: tuple[int, int, int], name: str) -> Network:
    """One hidden layer of a smooth activation."""
    rng = np.random.default_rng(seed)
    d, n, m = sizes
    curve = Curve(activation(name), np.arange(n))
    first = Layer(rng.standard_normal((n, d)), rng.standard_normal(n), curves=(curve,))
    return Network([first, Layer(rng.standard_normal((m, n)), np.zeros(m))])


@pytest.mark.parametrize("seed", range(6))
def test_a_table_is_that_of_all_regions(seed: int) -> None:
    """Units of all kinds, two outputs, two inputs."""
    make = random_network if seed % 2 else mixed_network
    network = make(seed, (2, 4, 3, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    truth = slopes(problem, np.eye(2), np.eye(2))
    found = lipyomo.jacobian_ranges(problem)
    assert found.status == "exact"
    assert found.columns == (0, 1)
    for (i, j), least in np.ndenumerate(truth.min(axis=0)):
        entry, largest = found.entries[i][j], truth[:, i, j].max()
        room = TOLERANCE * max(abs(least), abs(largest), 1e-6)
        assert entry.low[0] - 1e-12 <= least <= entry.low[1] + 1e-12
        assert entry.high[0] - 1e-12 <= largest <= entry.high[1] + 1e-12
        assert entry.low[1] - entry.low[0] <= room
        assert entry.high[1] - entry.high[0] <= room
        for point, value in zip(entry.witnesses, (least, largest), strict=True):
            assert network.jacobian_at(point.x)[i, j] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_progress_is_an_interval_of_the_largest_size() -> None:
    """From the first report on, before anything is searched."""
    network = random_network(0, (3, 4, 3, 2))
    problem = LipschitzProblem(network, ball(np.zeros(3), 1.0, "l2"))
    largest = np.abs(slopes(problem, np.eye(2), np.eye(3))).max()
    heard: list[lipyomo.Progress] = []
    found = lipyomo.jacobian_ranges(problem, progress=heard.append)
    assert found.status == "exact"
    assert len(heard) >= 2
    for report in heard:
        assert 0.0 < report.lower <= largest * (1.0 + 1e-9)
        assert report.upper * (1.0 + 1e-6) >= largest
    assert np.isfinite(heard[0].upper)


@pytest.mark.parametrize("seed", range(4))
def test_one_functional_along_one_direction(seed: int) -> None:
    """Neither is a unit vector; on a ball."""
    rng = np.random.default_rng(seed)
    network = random_network(seed, (3, 4, 3, 2))
    problem = LipschitzProblem(network, ball(np.zeros(3), 0.7, "l2"))
    c, v = rng.standard_normal(2), rng.standard_normal(3)
    truth = slopes(problem, c[None], v[:, None])
    found = lipyomo.derivative_range(problem, c, v)
    assert found.low[0] <= truth.min() + 1e-12
    assert found.high[1] >= truth.max() - 1e-12
    assert found.is_exact
    assert found.low[1] == pytest.approx(truth.min(), rel=3e-6, abs=1e-9)
    assert found.high[0] == pytest.approx(truth.max(), rel=3e-6, abs=1e-9)


def test_pieces_without_interior_do_not_count() -> None:
    """x written as 2 (relu(x + 10) - 10) - relu(x) + relu(-x) has the slope one everywhere."""
    trap = relu([[[1.0], [1.0], [-1.0]], [[2.0, -1.0, 1.0]]], [[10.0, 0.0, 0.0], [-20.0]])
    found = lipyomo.derivative_range(LipschitzProblem(trap, Box(-1, 1, 1)))
    assert found.low == pytest.approx((1.0, 1.0), rel=1e-6)
    assert found.high == pytest.approx((1.0, 1.0), rel=1e-6)


def test_small_entries_beside_large_ones_are_exact_too() -> None:
    """Slopes of a thousand and of a hundredth in one table."""
    first = [[1000.0, 0.0], [0.0, 0.01], [0.0, -0.01]]
    network = Network.from_arrays([first, [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]])
    found = lipyomo.jacobian_ranges(LipschitzProblem(network, Box(-1, 1, 2)))
    assert found.status == "exact"
    ends = [[(entry.low[1], entry.high[0]) for entry in row] for row in found.entries]
    assert ends == [[(0.0, 1000.0), (0.0, 0.01)], [(0.0, 0.0), (-0.01, 0.01)]]


def test_a_smooth_slope_in_closed_form() -> None:
    """Tanh has its largest slope at zero and its least at the far end."""
    network = Network(
        [Layer([[1.0]], [0.0], curves=(Curve(activation("tanh"), [0]),)), Layer([[1.0]], [0.0])]
    )
    found = lipyomo.derivative_range(LipschitzProblem(network, Box(-1, 2, 1)))
    assert found.is_exact
    assert found.low[1] == pytest.approx(1 / np.cosh(2.0) ** 2, rel=1e-6)
    assert found.high[0] == pytest.approx(1.0, rel=1e-6)
    everywhere = lipyomo.derivative_range(LipschitzProblem(network, AllSpace(1)), time_limit=5)
    assert everywhere.low[0] <= 0.0
    assert everywhere.high[1] >= 1.0


@pytest.mark.parametrize("name", ["tanh", "softplus", "elu"])
def test_smooth_tables_hold_all_samples(name: str) -> None:
    """No sample lies outside, and the ends are attained."""
    network = smooth(1, (2, 5, 2), name)
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    found = lipyomo.jacobian_ranges(problem, time_limit=20)
    jacobians = np.array([network.jacobian_at(x) for x in Box(-1, 1, 2).sample(
        np.random.default_rng(0), 500
    )])  # fmt: skip
    for (i, j), least in np.ndenumerate(jacobians.min(axis=0)):
        entry, largest = found.entries[i][j], jacobians[:, i, j].max()
        assert entry.low[0] <= least + 1e-9
        assert entry.low[1] <= least + 1e-9
        assert entry.high[1] >= largest - 1e-9
        assert entry.high[0] >= largest - 1e-9
        highest = entry.witnesses[1]
        assert highest is not None
        assert network.jacobian_at(highest.x)[i, j] == pytest.approx(entry.high[0])


def test_columns_are_the_inputs_that_are_asked_for() -> None:
    """Those that move, or those of wrt; frozen ones have no derivative."""
    network = random_network(3, (3, 4, 1))
    box = Box([-1, 0.5, -1], [1, 0.5, 1])
    whole = lipyomo.jacobian_ranges(LipschitzProblem(network, box))
    assert whole.columns == (0, 2)
    one = lipyomo.jacobian_ranges(LipschitzProblem(network, box, wrt=[2]))
    assert one.columns == (2,)
    assert one.entries[0][0].high[0] == pytest.approx(whole.entries[0][1].high[0], rel=1e-6)
    with pytest.raises(ProblemError, match="cannot move"):
        lipyomo.derivative_range(LipschitzProblem(network, box), direction=[0.0, 1.0, 0.0])
    with pytest.raises(ProblemError, match="several directions"):
        lipyomo.derivative_range(LipschitzProblem(network, box))
    T = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 2.0]])
    with pytest.raises(ProblemError, match="one direction at a time"):
        lipyomo.jacobian_ranges(LipschitzProblem(network, box, directions=T))


def test_no_time_leaves_an_honest_interval() -> None:
    """What is not known is not claimed."""
    network = random_network(0, (2, 6, 6, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    truth = slopes(problem, np.eye(2), np.eye(2))
    found = lipyomo.jacobian_ranges(problem, time_limit=1e-9)
    for (i, j), least in np.ndenumerate(truth.min(axis=0)):
        entry = found.entries[i][j]
        assert entry.low[0] <= least <= entry.low[1]
        assert entry.high[0] <= truth[:, i, j].max() <= entry.high[1]
        assert entry.is_exact or entry.status == "time_limit"


def test_the_tilted_network_is_the_tilted_function() -> None:
    """Affine networks as well."""
    rng = np.random.default_rng(0)
    for network in (mixed_network(0, (3, 4, 4, 2)), Network.from_arrays([rng.random((2, 3))])):
        points, rows = rng.uniform(-2, 2, (50, 3)), np.array([[0.5, -2.0]])
        expected = 8.0 * points[:, 1] + network.forward(points) @ rows[0]
        found = tilted(network, rows, np.eye(1, 3, 1), np.array([[8.0]]))
        assert found.forward(points)[:, 0] == pytest.approx(expected)


def test_slopes_too_large_for_a_linear_term_leave_what_is_known() -> None:
    """The derivative is known, but 1e100 and more is no weight."""
    network = Network.from_arrays([[[1e60], [-1e60]], [[2e40, 1e40]]])
    found = lipyomo.derivative_range(LipschitzProblem(network, Box(-1, 1, 1)))
    assert found.low[0] <= -1e100 <= found.low[1]
    assert found.high[0] <= 2e100 <= found.high[1]


def test_ends_next_to_kinks_are_followed_in_one_search() -> None:
    """Where slopes grow towards a kink, each better point once began a search of its own."""
    plain = random_network(2, (2, 4, 3, 1))
    bent = Layer(
        plain.layers[0].weight, plain.layers[0].bias, curves=[Curve(activation("tanh"), range(4))]
    )
    network = Network([bent, *plain.layers[1:]])
    found = lipyomo.jacobian_ranges(LipschitzProblem(network, Box(-1, 1, 2)), time_limit=300)
    assert found.status is Status.EXACT
    assert found.nodes < 3000  # without that, 10,000 are not enough


@pytest.mark.parametrize("seed", range(3))
def test_smooth_entries_are_derivatives_along_constant_fields(seed: int) -> None:
    """Entries of one sign among them; by two searches that share no bound of the objective."""
    network = smooth(seed, (2, 5, 2), "tanh")
    box = Box(0.1, 0.6, 2)
    found = lipyomo.jacobian_ranges(LipschitzProblem(network, box))
    assert found.status == "exact"
    for i, j in np.ndindex(2, 2):
        field = np.zeros((2, 2)), np.eye(2)[j]
        other = lipyomo.lie_derivative(network, field, box, np.eye(2)[i])
        entry = found.entries[i][j]
        assert entry.low[1] == pytest.approx(other.low[1], rel=2e-6, abs=1e-9)
        assert entry.high[0] == pytest.approx(other.high[0], rel=2e-6, abs=1e-9)


def test_smooth_entries_with_workers_are_those_of_one_process() -> None:
    """What a task needs to know of all entries travels with it."""
    problem = LipschitzProblem(smooth(0, (2, 6, 2), "silu"), Box(-1, 1, 2))
    alone, together = (lipyomo.jacobian_ranges(problem, workers=n) for n in (1, 2))
    assert alone.status == together.status == "exact"
    for one, other in zip(
        np.ravel([*alone.entries]).tolist(), np.ravel([*together.entries]).tolist(), strict=True
    ):
        assert one.low[1] == pytest.approx(other.low[1], rel=2e-6, abs=1e-9)
        assert one.high[0] == pytest.approx(other.high[0], rel=2e-6, abs=1e-9)
