"""CLEVER's fit, SeqLip, and the cross norms of Table 5."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from lipyomo import AllSpace, Box, LipschitzProblem, Network, Result, Settings, Status, solve
from lipyomo.base.clock import Clock
from lipyomo.methods import clever, registry
from lipyomo.methods.clever import fit_reverse_weibull
from lipyomo.methods.crosslip import pairs
from lipyomo.methods.registry import Method, finished, methods
from lipyomo.problems.result import Guarantee
from lipyomo.problems.run import Run
from networks import random_network


@pytest.mark.parametrize("shape", [2.0, 4.0])
def test_the_end_point_of_a_weibull_sample_is_found(shape: float) -> None:
    sample = stats.weibull_max(shape, loc=7.0, scale=2.0).rvs(2000, random_state=0)
    fit = fit_reverse_weibull(sample)
    assert fit.usable
    assert fit.end == pytest.approx(7.0, abs=0.15)
    assert fit.shape == pytest.approx(shape, rel=0.2)
    assert fit.p_value > 0.01


def test_the_fit_scales_and_shifts_with_the_sample() -> None:
    sample = stats.weibull_max(3.0, loc=1.0, scale=0.5).rvs(500, random_state=1)
    fit, moved = fit_reverse_weibull(sample), fit_reverse_weibull(100.0 * sample + 5.0)
    assert moved.end == pytest.approx(100.0 * fit.end + 5.0, rel=1e-4)
    assert moved.shape == pytest.approx(fit.shape, rel=1e-3)


@pytest.mark.parametrize(
    ("sample", "verdict"),
    [
        (np.full(50, 3.0), "degenerate"),
        (stats.gumbel_r().rvs(500, random_state=0), "diverged"),
        (np.r_[np.full(400, 1.0), np.linspace(0, 0.9, 100)], "collapsed"),
    ],
)
def test_samples_without_an_end_point(sample: np.ndarray, verdict: str) -> None:
    assert fit_reverse_weibull(sample).verdict == verdict


def test_clever_falls_back_to_the_sample_maximum() -> None:
    # a single affine piece: every sampled norm is the same
    network = random_network(0, (2, 3, 1), bias=0.0)
    problem = LipschitzProblem(network, Box([5.0, 5.0], [5.1, 5.1]))
    result = solve(problem, "clever", options={"batches": 5, "batch_size": 16})
    assert result.guarantee is Guarantee.HEURISTIC
    assert result.details["fit"] == "degenerate"
    assert result.estimate == pytest.approx(solve(problem, "bnb").lower)


def test_seqlip_exact_is_a_bound_and_greedy_is_below_it() -> None:
    problem = LipschitzProblem(random_network(3, (4, 8, 7, 2)), AllSpace(4), "l2", "l2")
    greedy = solve(problem, "seqlip")
    exact = solve(problem, "seqlip", options={"search": "exact"})
    assert greedy.estimate is not None
    assert greedy.upper == np.inf
    assert greedy.estimate <= exact.upper
    assert exact.guarantee is Guarantee.UPPER
    assert solve(problem, "local_search").lower <= exact.upper
    assert exact.upper <= solve(problem, "naive", attain=False).upper


def test_seqlip_exact_counts_the_rounding_of_what_cancels() -> None:
    c, head = [-2.09, 0.1, 1.82, 0.11], [1.16, -0.07, -2.16, 57.842]
    truth = abs(sum(Fraction(y) * Fraction(w) for y, w in zip(c, head, strict=True)))
    network = Network.from_arrays([[[1.0]], np.array(head)[:, None]])
    problem = LipschitzProblem(network, Box(-1, 1, 1), functional=c)
    assert Fraction(solve(problem, "seqlip", options={"search": "exact"}).upper) >= truth


def test_seqlip_of_several_functionals_is_that_of_the_worst() -> None:
    problem = LipschitzProblem(random_network(3, (4, 8, 7, 3)), AllSpace(4), "l2", "cross")
    vertices = problem.dual_vertices
    assert vertices is not None
    each = [LipschitzProblem(problem.network, AllSpace(4), "l2", functional=y) for y in vertices]
    together = solve(problem, "seqlip").estimate
    assert together == max(solve(one, "seqlip").estimate for one in each)


def test_seqlip_begins_no_decomposition_that_does_not_end_in_time() -> None:
    """The clock stands still: what is begun would end."""
    problem = LipschitzProblem(random_network(3, (40, 50, 2)), AllSpace(40), "l2", "l2")
    run = Run(problem, Settings(), "seqlip", clock=Clock(1e-9, now=lambda: 0.0))
    result = finished(methods()["seqlip"], run)
    assert result.estimate is None
    assert result.status is Status.TIME_LIMIT
    assert any("no time" in note for note in result.warnings)


def test_margins_alone_are_at_most_the_cross_norm() -> None:
    network, box = random_network(5, (2, 5, 4, 3)), Box(-1, 1, 2)
    margins = LipschitzProblem(network, box, output_norm=pairs(1, 3))
    cross = LipschitzProblem(network, box, margin=1)
    loop, choice = (solve(margins, name) for name in ("pairwise", "mipcrosslip"))
    hull = solve(cross, "crosslip")
    assert loop.is_exact
    assert choice.is_exact
    assert hull.is_exact
    assert loop.lower == pytest.approx(choice.lower, rel=1e-5)
    assert hull.upper >= loop.lower
    assert len(loop.details["values"]) == 2


@pytest.mark.parametrize("seed", [0, 1])
def test_equal_seeds_give_equal_samples(seed: int) -> None:
    problem = LipschitzProblem(random_network(2, (3, 6, 1)), Box(-1, 1, 3))
    for method in ("random_lb", "clever"):
        first, second = (solve(problem, method, seed=seed).value for _ in range(2))
        assert first == second


def test_pairwise_begins_no_problem_whose_excess_would_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A method of one's own for the single problems, which takes four seconds more than allowed."""
    now, limits = [0.0], list[float]()

    def slow(run: Run) -> Result:
        limits.append(run.settings.time_limit)
        now[0] += run.settings.time_limit + 4.0
        run.drop_upper(solve(run.problem, "bnb").upper)
        return run.result()

    problem = LipschitzProblem(random_network(3, (3, 5, 4)), Box(-1, 1, 3))
    exact = solve(problem, "bnb").lower
    own = Method("slow", "Slow", Guarantee.EXACT, "test", slow)
    monkeypatch.setitem(registry._METHODS, "slow", own)  # until the test ends
    clock = Clock(10.0, now=lambda: now[0])
    run = Run(problem, Settings(options={"method": "slow"}), "pairwise", clock=clock)
    result = finished(methods()["pairwise"], run)
    assert limits == [2.5]  # 3.5 seconds are left then
    assert result.status is Status.TIME_LIMIT
    assert result.lower <= exact <= result.upper < np.inf


@pytest.mark.parametrize("count", [20, 500])
def test_the_distance_of_a_fit_is_that_of_kolmogorov_and_smirnov(count: int) -> None:
    rng = np.random.default_rng(count)
    for power in (1.0, 1.3):
        shares = rng.random(count) ** power
        truth = stats.kstest(shares, "uniform").statistic
        assert clever._distance(shares) == pytest.approx(truth, rel=1e-12)
