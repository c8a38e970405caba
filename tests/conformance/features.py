"""Conformance: quadratic terms, special ordered sets, and numbers at the edge of infinity.

What a solver does not take has to be refused, by name, instead of being ignored.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyomo.environ as pyo

from conformance import instances as known
from conformance.base import MAX, MIN, SENSES, ContractBase, covers
from lipyomo.base.errors import SolverError
from lipyomo.solvers.status import SolveStatus


class FeatureContract(ContractBase):
    """Models beyond linear rows."""

    def solved_or_refused(self, model: Any, value: float, sense: Any = MIN) -> Any:
        """Compare with a known optimum; skip what the solver says by name that it does not take.

        It must not say so of what its adapter claims.
        """
        refused = ""
        try:
            outcome = self.solve(model, sense, rel_gap=1e-7, abs_gap=1e-7)
        except SolverError as error:
            refused = str(error).partition("takes no ")[2]
            if not refused:
                raise
        claimed = getattr(self.make_solver(), "takes", ())
        assert not [feature for feature in claimed if refused.startswith(f"{feature} (")], refused
        self.need(not refused, f"takes no {refused}")
        assert outcome.status in (SolveStatus.OPTIMAL, SolveStatus.GAP), outcome.message
        assert outcome.incumbent is not None
        scale = max(1.0, abs(value))
        assert abs(outcome.incumbent - value) <= self.quadratic_tolerance * scale, (
            outcome.incumbent,
            value,
        )
        assert covers(outcome.bound, value, sense, self.quadratic_tolerance)
        assert outcome.violation <= self.quadratic_tolerance
        return outcome

    def test_quadratic_objective(self) -> None:
        """Nearest point of a simplex, as a minimum and as the maximum of the negative."""
        for sense in SENSES:
            sign = 1.0 if sense == MIN else -1.0
            target = np.array([0.9, 0.4, -0.3])
            model = pyo.ConcreteModel()
            model.x = pyo.Var(range(3), bounds=(0, None))
            model.sum = pyo.Constraint(expr=sum(model.x.values()) == 1)
            gap = sum((model.x[j] - float(target[j])) ** 2 for j in range(3))
            model.objective = pyo.Objective(expr=sign * gap + 2.0, sense=sense)
            # The projection onto the simplex is (0.75, 0.25, 0).
            self.solved_or_refused(model, sign * (2 * 0.15**2 + 0.3**2) + 2.0, sense)

    def test_mixed_products(self) -> None:
        """Products of different variables, which solvers count once or twice."""
        model = pyo.ConcreteModel()
        model.x, model.y = pyo.Var(bounds=(-5, 5)), pyo.Var(bounds=(-5, 5))
        curve = 2 * model.x**2 + model.x * model.y + model.y**2 - 3 * model.x + model.y
        model.objective = pyo.Objective(expr=curve)
        best = np.linalg.solve([[4.0, 1.0], [1.0, 2.0]], [3.0, -1.0])
        x, y = best.tolist()
        self.solved_or_refused(model, 2 * x * x + x * y + y * y - 3 * x + y)

    def test_quadratic_objective_with_integers(self) -> None:
        """Against enumeration."""
        rng = np.random.default_rng(2)
        root = rng.normal(size=(4, 4))
        form, linear = root @ root.T, rng.normal(size=4)
        model = pyo.ConcreteModel()
        model.x = pyo.Var(range(4), domain=pyo.Integers, bounds=(-2, 2))
        curve = sum(float(form[i, j]) * model.x[i] * model.x[j] for i in range(4) for j in range(4))
        model.objective = pyo.Objective(
            expr=curve + sum(float(linear[j]) * model.x[j] for j in range(4))
        )
        points = np.array(list(itertools.product(range(-2, 3), repeat=4)), dtype=float)
        values = np.einsum("ki,ij,kj->k", points, form, points) + points @ linear
        self.solved_or_refused(model, float(values.min()))

    def test_objective_that_is_not_convex(self) -> None:
        """A product over a box; its minimum is in a corner."""
        model = pyo.ConcreteModel()
        model.x, model.y = pyo.Var(bounds=(-1, 2)), pyo.Var(bounds=(-3, 1))
        model.objective = pyo.Objective(expr=model.x * model.y)
        self.solved_or_refused(model, -6.0)

    def test_quadratic_constraint(self) -> None:
        """The far point of a disc, from below and with a range."""
        for row in (None, 0.25):
            model = pyo.ConcreteModel()
            model.x, model.y = pyo.Var(bounds=(-3, 3)), pyo.Var(bounds=(-3, 3))
            disc = model.x**2 + model.y**2
            model.disc = pyo.Constraint(expr=(row, disc, 4.0))
            model.objective = pyo.Objective(expr=model.x + model.y, sense=MAX)
            self.solved_or_refused(model, 2.0 * math.sqrt(2.0), MAX)

    def test_second_order_cone(self) -> None:
        """The distance of a point from a line, and from the integers on it."""
        for domain, nearest in ((pyo.Reals, 2.0 * math.sqrt(2.0)), (pyo.Integers, math.sqrt(8.5))):
            model = pyo.ConcreteModel()
            model.x = pyo.Var([0, 1], bounds=(-9, 9), domain=domain)
            model.off = pyo.Var([0, 1])
            model.far = pyo.Var(bounds=(0, None))
            model.line = pyo.Constraint(expr=model.x[0] - model.x[1] == 3)
            model.first = pyo.Constraint(expr=model.off[0] == model.x[0] - 0.5)
            model.second = pyo.Constraint(expr=model.off[1] == model.x[1] - 1.5)
            size = model.off[0] ** 2 + model.off[1] ** 2
            model.cone = pyo.Constraint(expr=size <= model.far**2)
            model.objective = pyo.Objective(expr=model.far)
            # The line holds (2, -2) as differences; the integers next to it (3/2, -5/2).
            self.solved_or_refused(model, nearest)

    def test_ordered_sets(self) -> None:
        """Sets of both types against enumeration; weights, not positions, make neighbours."""
        for kind, sense in itertools.product((1, 2), SENSES):
            gains = [3.0, 1.0, 4.0, 2.5, 5.0]
            model = pyo.ConcreteModel()
            model.x = pyo.Var(range(5), bounds=(0, 1))
            weights = {0: 1.0, 3: 2.0, 1: 3.0, 2: 4.0, 4: 5.0}
            model.only = pyo.SOSConstraint(var=model.x, sos=kind, weights=weights)
            sign = 1.0 if sense == MAX else -1.0
            total = sum(sign * gains[j] * model.x[j] for j in range(5))
            model.objective = pyo.Objective(expr=total, sense=sense)
            best = 5.0 if kind == 1 else 4.0 + 5.0
            self.solved_or_refused(model, sign * best, sense)

    def test_ordered_sets_beside_rows(self) -> None:
        """Complementary variables: the distance of a point from the axes."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var([0, 1], bounds=(0, 10))
        model.far = pyo.Var(bounds=(0, 10))
        model.only = pyo.SOSConstraint(var=model.x, sos=1)
        model.one = pyo.Constraint(expr=model.far >= 3.0 - model.x[0] + 0.5 * model.x[1])
        model.two = pyo.Constraint(expr=model.far >= 2.0 - model.x[1] + 0.5 * model.x[0])
        model.objective = pyo.Objective(expr=model.far)
        # With x1 = 0: max(3 - t, 2 + t/2) is 7/3 at t = 2/3; with x0 = 0: 8/3.
        self.solved_or_refused(model, 7.0 / 3.0)

    def test_ordered_sets_without_bounds(self) -> None:
        """Against enumeration, where the relaxation is unbounded."""
        for seed in range(6):
            self.solved_or_refused(*known.kinked(seed))

    def test_ordered_sets_that_rows_bound(self) -> None:
        """Interpolation between points; only a row bounds the weights."""
        model = pyo.ConcreteModel()
        model.weight = pyo.Var(range(4), domain=pyo.NonNegativeReals)
        model.sum = pyo.Constraint(expr=sum(model.weight.values()) == 1)
        model.next = pyo.SOSConstraint(var=model.weight, sos=2)
        place = sum(k * model.weight[k] for k in range(4))
        model.at = pyo.Constraint(expr=place == 1.5)
        height = sum(h * model.weight[k] for k, h in enumerate([0.0, 4.0, 2.0, 9.0]))
        model.objective = pyo.Objective(expr=height)
        self.solved_or_refused(model, 3.0)

    def test_terms_beyond_quadratic_are_refused(self) -> None:
        """By the name of the constraint."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 1))
        model.cubic = pyo.Constraint(expr=model.x**3 <= 0.5)
        model.objective = pyo.Objective(expr=model.x, sense=MAX)
        said = ""
        try:
            self.solve(model, MAX)
        except SolverError as error:
            said = str(error)
        assert "cubic" in said

    def test_infinite_sides_are_no_constraint(self) -> None:
        """Whether they are written as infinite or as a number that solvers take for infinite."""
        for side in (math.inf, 1e20, 1e30):
            model = pyo.ConcreteModel()
            model.x = pyo.Var(bounds=(-2, 3))
            model.b = pyo.Var(domain=pyo.Binary)
            model.upper = pyo.Constraint(expr=(None, model.x + model.b, side))
            model.lower = pyo.Constraint(expr=(-side, model.x - model.b, None))
            model.range = pyo.Constraint(expr=(-side, model.x + 2 * model.b, 4.0))
            model.objective = pyo.Objective(expr=model.x + model.b, sense=MAX)
            # Without the range there would be 4; b = 1 leaves x <= 2, b = 0 leaves x <= 3.
            self.expect(model, 3.0, MAX)

    def test_huge_bounds_are_infinite(self) -> None:
        """Variables between -1e20 and 1e20 are free."""
        for huge in (1e20, 1e25, math.inf):
            model = pyo.ConcreteModel()
            model.x = pyo.Var(bounds=(-huge, huge))
            model.b = pyo.Var(domain=pyo.Binary)
            model.row = pyo.Constraint(expr=model.x + model.b <= 5)
            model.objective = pyo.Objective(expr=model.x + 0.5 * model.b, sense=MAX)
            self.expect(model, 5.0, MAX)
            model.objective.sense = MIN
            outcome = self.solve(model)
            assert outcome.status in (SolveStatus.UNBOUNDED, SolveStatus.INFEASIBLE_OR_UNBOUNDED)

    def test_discrete_variables_fixed_between_integers(self) -> None:
        """They leave nothing feasible, but for the relaxation."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 1))
        model.b = pyo.Var(domain=pyo.Binary)
        model.row = pyo.Constraint(expr=model.x <= model.b)
        model.objective = pyo.Objective(expr=model.x, sense=MAX)
        model.b.fix(0.5)
        assert self.solve(model, MAX).status is SolveStatus.INFEASIBLE
        if "relax" in self.make_solver().config:
            outcome = self.solve(model, MAX, relax=True)
            assert outcome.incumbent is not None
            assert abs(outcome.incumbent - 0.5) <= self.tolerance
        model.b.fix(1.0 - 1e-9)
        self.expect(model, 1.0, MAX)
