"""Conformance: statuses, gaps and bounds."""

from __future__ import annotations

import math

from conformance import instances as known
from conformance.base import MAX, MIN, SENSES, ContractBase, covers
from lipyomo.solvers.status import SolveStatus


class StatusContract(ContractBase):
    """Every ending, in both senses."""

    def test_optima_match_brute_force(self) -> None:
        """Optima of small knapsacks are those of brute force, in both senses."""
        for seed in range(4):
            for sense in SENSES:
                model, optimum = known.knapsack(seed, sense)
                self.expect(model, optimum, sense, rel_gap=0.0, abs_gap=0.0)

    def test_zero_gap_is_reported_as_optimal(self) -> None:
        """A search without any gap allowed ends as OPTIMAL."""
        model, _ = known.knapsack(5, MAX)
        assert self.solve(model, MAX, rel_gap=0.0, abs_gap=0.0).status is SolveStatus.OPTIMAL

    def test_big_m_optima_match_enumeration(self) -> None:
        """Tight and loose big-M rows have the optimum of enumeration."""
        for seed in range(3):
            for big_m in (3.0, 1e3):
                model, optimum = known.fixed_charge(seed, big_m)
                self.expect(model, optimum, MIN, rel_gap=0.0, integrality_tolerance=1e-9)

    def test_a_loose_gap_still_gives_a_true_bound(self) -> None:
        """With a gap of 20 %, the bound still covers the true optimum."""
        for seed in range(8):
            for sense in SENSES:
                model, optimum = known.knapsack(seed, sense, rows=3)
                outcome = self.solve(model, sense, rel_gap=0.2, abs_gap=0.0)
                assert outcome.status.proven
                assert outcome.gap <= 0.2 + self.tolerance
                assert covers(outcome.bound, optimum, sense)
                assert outcome.incumbent is not None
                assert covers(optimum, outcome.incumbent, sense)

    def test_an_absolute_gap_still_gives_a_true_bound(self) -> None:
        """With an absolute gap, the bound still covers the true optimum."""
        for seed in range(4):
            for sense in SENSES:
                model, optimum = known.knapsack(seed, sense, rows=3)
                outcome = self.solve(model, sense, rel_gap=0.0, abs_gap=1.0)
                assert outcome.status.proven
                assert outcome.incumbent is not None
                assert abs(outcome.bound - outcome.incumbent) <= 1.0 + self.tolerance
                assert covers(outcome.bound, optimum, sense)

    def test_time_limit_with_an_incumbent(self) -> None:
        """A time limit is kept, and leaves incumbent and bound."""
        for sense in SENSES:
            model, _ = known.market_split(sense)
            outcome = self.solve(model, sense, time_limit=self.short, rel_gap=0.0, abs_gap=0.0)
            assert outcome.status is SolveStatus.TIME_LIMIT
            assert outcome.incumbent is not None
            assert covers(outcome.bound, 0.0, sense)
            assert covers(0.0, outcome.incumbent, sense)
            assert outcome.gap > 0.0
            assert outcome.seconds < self.prompt

    def test_nodes_are_limited(self) -> None:
        """A limit of nodes ends the search long before it is done, with a bound that holds."""
        for sense in SENSES:
            model, _ = known.market_split(sense)
            outcome = self.solve(model, sense, node_limit=3, rel_gap=0.0, abs_gap=0.0)
            assert outcome.status is SolveStatus.LIMIT
            assert outcome.nodes < 200
            assert covers(outcome.bound, 0.0, sense)

    def test_time_limit_without_an_incumbent(self) -> None:
        """A time limit without an incumbent still leaves a finite bound."""
        for sense in SENSES:
            model, hidden = known.market_split(sense, slack=False)
            outcome = self.solve(model, sense, time_limit=self.short, rel_gap=0.0, abs_gap=0.0)
            assert outcome.status is SolveStatus.TIME_LIMIT
            assert outcome.incumbent is None
            assert covers(outcome.bound, float(sum(hidden)), sense)
            assert math.isfinite(outcome.bound)
            assert math.isinf(outcome.gap)

    def test_infeasible_models_have_the_bound_of_the_empty_set(self) -> None:
        """The maximum over nothing is -inf, the minimum +inf."""
        for kind in ("lp", "mip", "ray", "bounds", "constant"):
            for sense in SENSES:
                outcome = self.solve(known.infeasible(sense, kind), sense)
                assert outcome.status is SolveStatus.INFEASIBLE, kind
                assert outcome.incumbent is None
                assert outcome.bound == (-math.inf if sense == MAX else math.inf)

    def test_unbounded_models_have_no_bound(self) -> None:
        """Unbounded models are told from infeasible ones, and have no bound."""
        for integer in (False, True):
            for sense in SENSES:
                outcome = self.solve(known.unbounded(sense, integer), sense)
                assert outcome.status is SolveStatus.UNBOUNDED
                assert outcome.incumbent is None
                assert outcome.bound == (math.inf if sense == MAX else -math.inf)
