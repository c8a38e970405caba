"""Nonlinear models solved by IPOPT, with derivatives by differences of Pyomo's expressions."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.core.expr.visitor import identify_variables


def kkt_point(model):
    """Load a point at which IPOPT finds the conditions of first order to hold."""
    ipyopt = pytest.importorskip("ipyopt", reason="IPOPT: pip install 'lipyomo[ipopt]'")
    rows = list(model.component_data_objects(pyo.Constraint, active=True))
    (goal,) = model.component_data_objects(pyo.Objective, active=True)
    sign = 1.0 if goal.sense == pyo.minimize else -1.0
    held = [list(identify_variables(body)) for body in (*(row.body for row in rows), goal.expr)]
    columns = list({id(v): v for found in held for v in found}.values())
    place = {id(v): j for j, v in enumerate(columns)}
    pairs = [(i, place[id(v)]) for i, found in enumerate(held[:-1]) for v in found]

    def put(x):
        for variable, number in zip(columns, x.tolist(), strict=True):
            variable.set_value(number, skip_validation=True)

    def slopes(body, found, step=1e-6):
        slope = []
        for variable in found:
            middle, ends = variable.value, []
            for side in (1.0, -1.0):
                variable.set_value(middle + side * step, skip_validation=True)
                ends.append(pyo.value(body))
            variable.set_value(middle, skip_validation=True)
            slope.append((ends[0] - ends[1]) / (2.0 * step))
        return slope

    def value(x):
        put(x)
        return sign * pyo.value(goal.expr)

    def gradient(x, out):
        put(x)
        out[:] = 0.0
        for variable, slope in zip(held[-1], slopes(goal.expr, held[-1]), strict=True):
            out[place[id(variable)]] = sign * slope

    def constraints(x, out):
        put(x)
        out[:] = [pyo.value(row.body) for row in rows]

    def jacobian(x, out):
        put(x)
        every = [slopes(row.body, found) for row, found in zip(rows, held[:-1], strict=True)]
        out[:] = np.concatenate([np.asarray(part, dtype=float) for part in every])

    def ends(items):
        low = [-1e20 if item.lb is None else float(item.lb) for item in items]
        return np.array(low), np.array([1e20 if i.ub is None else float(i.ub) for i in items])

    problem = ipyopt.Problem(
        len(columns),
        *ends(columns),
        len(rows),
        *ends(rows),
        (np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])),
        ([], []),
        value,
        gradient,
        constraints,
        jacobian,
        ipopt_options={"print_level": 0, "sb": "yes", "hessian_approximation": "limited-memory"},
    )
    start = np.array([0.0 if v.value is None else float(v.value) for v in columns])
    x, _, status = problem.solve(start)
    assert status in (0, 1)  # solved, or to the acceptable level
    put(np.asarray(x))
