"""Conformance: rows, variables and numbers."""

from __future__ import annotations

import math

import pyomo.environ as pyo

from conformance import instances as known
from conformance.base import MAX, MIN, SENSES, ContractBase, covers
from lipyomo.solvers.status import SolveStatus


class ModelContract(ContractBase):
    """Every kind of row, variable and number."""

    def test_rows_of_every_kind(self) -> None:
        """Equations, equal bounds, ranges and one-sided rows."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(range(4), bounds=(-5, 5))
        model.equal = pyo.Constraint(expr=model.x[0] + model.x[1] == 1)
        model.equal_bounds = pyo.Constraint(expr=(2, model.x[1] + model.x[2], 2))
        model.range = pyo.Constraint(expr=(-1, model.x[2] - model.x[3], 3))
        model.open = pyo.Constraint(expr=(None, model.x[0] + model.x[3], 4))
        model.objective = pyo.Objective(expr=model.x[3] - 2 * model.x[0], sense=MAX)
        # With t = x[1]: x[0] = 1 - t, x[2] = 2 - t, -1 - t <= x[3] <= min(3 - t, 3 + t).
        self.expect(model, 6.0, MAX)  # t = 5
        model.objective.sense = MIN
        self.expect(model, -5.0, MIN)  # t = -2

    def test_a_constant_inside_an_equation_with_zero_bounds(self) -> None:
        """``(0, expression + constant, 0)`` is an equation like any other."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 10))
        model.row = pyo.Constraint(expr=(0, model.x - 3.5, 0))
        model.objective = pyo.Objective(expr=model.x)
        self.expect(model, 3.5)

    def test_free_fixed_and_unused_variables(self) -> None:
        """Free, fixed, pinned and unused variables keep their values."""
        model = pyo.ConcreteModel()
        model.free = pyo.Var()
        model.fixed = pyo.Var(bounds=(0, 10))
        model.fixed.fix(4.25)
        model.pinned = pyo.Var(bounds=(2, 2), domain=pyo.Integers)
        model.unused = pyo.Var()
        model.row = pyo.Constraint(expr=model.free + model.fixed + model.pinned >= -20)
        model.objective = pyo.Objective(expr=3 * model.free + model.fixed)
        outcome = self.expect(model, 3 * -26.25 + 4.25)
        assert math.isclose(outcome.value(model.free), -26.25, abs_tol=self.tolerance)
        assert outcome.value(model.fixed) == 4.25
        assert math.isclose(outcome.value(model.pinned), 2.0, abs_tol=self.tolerance)

    def test_integers_with_negative_and_one_sided_bounds(self) -> None:
        """Integers with negative, fractional and missing bounds."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(-7.5, -1.2), domain=pyo.Integers)
        model.y = pyo.Var(bounds=(None, -2.5), domain=pyo.Integers)
        model.z = pyo.Var(bounds=(-3, None), domain=pyo.Integers)
        model.row = pyo.Constraint(expr=model.z - model.y <= 20)
        model.objective = pyo.Objective(expr=model.x + 2 * model.y + model.z, sense=MAX)
        self.expect(model, -2.0 - 6.0 + 17.0, MAX)

    def test_empty_rows(self) -> None:
        """Rows without variables hold within rounding, and are left active."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 5))
        model.y = pyo.Var(bounds=(0, 5))
        model.y.fix(0.1 + 0.2)
        model.satisfied = pyo.Constraint(expr=0 * model.x <= 1)
        # 0.1 + 0.2 misses 0.3 by one rounding.
        model.rounding = pyo.Constraint(expr=model.y == 0.3)
        model.objective = pyo.Objective(expr=model.x + model.y, sense=MAX)
        self.expect(model, 5.3, MAX)
        assert model.rounding.active

    def test_no_objective_means_feasibility(self) -> None:
        """A model without an objective asks for a feasible point."""
        model, _ = known.knapsack(1, MIN)
        model.objective.deactivate()
        outcome = self.solve(model)
        assert outcome.status is SolveStatus.OPTIMAL
        outcome.load()
        assert all(row.slack() >= -self.tolerance for row in model.rows.values())

    def test_no_free_variable(self) -> None:
        """A model in which everything is fixed has its value."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 5))
        model.x.fix(2)
        model.row = pyo.Constraint(expr=model.x <= 3)
        model.objective = pyo.Objective(expr=2 * model.x + 1, sense=MAX)
        self.expect(model, 5.0, MAX)

    def test_names_with_odd_characters(self) -> None:
        """No name of the model can disturb the way to the solver."""
        model = pyo.ConcreteModel()
        names = ["a b", "x[1,2]", "-3", "1e5", "größe", "st", "subject to", "end;", '"quoted"']
        model.x = pyo.Var(names, bounds=(0, 1))
        model.rows = pyo.Constraint(names)
        for name in names:
            model.rows[name] = model.x[name] <= 0.5
        model.objective = pyo.Objective(expr=sum(model.x.values()), sense=MAX)
        outcome = self.expect(model, 0.5 * len(names), MAX)
        assert math.isclose(outcome.value(model.x["größe"]), 0.5, abs_tol=self.tolerance)

    def test_coefficients_from_1e_minus_9_to_1e9(self) -> None:
        """The scale of the objective does not change the solution."""
        for scale in (1e-9, 1e-6, 1.0, 1e6, 1e9):
            model = pyo.ConcreteModel()
            model.x = pyo.Var(bounds=(0, 1e3))
            model.y = pyo.Var(bounds=(0, 1e3))
            model.row = pyo.Constraint(expr=model.x + 2 * model.y <= 30)
            model.objective = pyo.Objective(expr=scale * (model.x + 3 * model.y), sense=MAX)
            outcome = self.solve(model, MAX)
            assert outcome.status.proven
            assert outcome.incumbent is not None
            assert math.isclose(outcome.incumbent, 45 * scale, rel_tol=self.tolerance)

    def test_rows_with_wide_coefficients(self) -> None:
        """A tiny cost of a huge variable counts."""
        model = pyo.ConcreteModel()
        model.small = pyo.Var(bounds=(0, 1))
        model.large = pyo.Var(bounds=(0, None))
        model.row = pyo.Constraint(expr=1e-6 * model.large + 1e3 * model.small <= 2e3)
        model.objective = pyo.Objective(expr=1e-9 * model.large + model.small, sense=MAX)
        # small = 1 leaves 1e9 for large
        self.expect(model, 2.0, MAX)

    def test_the_objective_constant_is_kept(self) -> None:
        """A large constant costs neither incumbent nor bound its digits."""
        for sense in SENSES:
            for constant in (1e6, -1e6):
                model, optimum = known.knapsack(2, sense)
                model.objective.expr = model.objective.expr + constant
                outcome = self.solve(model, sense, rel_gap=0.0, abs_gap=0.0)
                assert outcome.incumbent is not None
                assert math.isclose(outcome.incumbent, optimum + constant, rel_tol=1e-12)
                assert covers(outcome.bound, optimum + constant, sense, 1e-11)
                assert covers(optimum + constant, outcome.bound, sense, 1e-11)
