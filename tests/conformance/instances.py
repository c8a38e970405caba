"""Small models with known answers, for the conformance suite."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyomo.environ as pyo

MIN, MAX = pyo.minimize, pyo.maximize


def knapsack(seed: int, sense: Any, size: int = 12, rows: int = 2) -> tuple[Any, float]:
    """Return a random multi-row knapsack (or covering) model and its optimum by brute force.

    Parameters
    ----------
    seed : int
    sense : ObjectiveSense
        Knapsack for a maximum, covering for a minimum.
    size : int
        Number of binaries; 2**size points are enumerated.
    rows : int
    """
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1.0, 10.0, (rows, size))
    gains = rng.uniform(1.0, 10.0, size)
    limits = weights.sum(axis=1) * 0.45
    offset = float(rng.uniform(-20.0, 20.0))
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(size), domain=pyo.Binary)
    model.rows = pyo.Constraint(range(rows))
    for row in range(rows):
        total = sum(float(weights[row, j]) * model.x[j] for j in range(size))
        limit = float(limits[row])
        model.rows[row] = total <= limit if sense == MAX else total >= limit
    gain = sum(float(gains[j]) * model.x[j] for j in range(size)) + offset
    model.objective = pyo.Objective(expr=gain, sense=sense)
    points = np.array(list(itertools.product((0.0, 1.0), repeat=size)))
    load = points @ weights.T
    feasible = (load <= limits if sense == MAX else load >= limits).all(axis=1)
    values = points[feasible] @ gains + offset
    return model, float(values.max() if sense == MAX else values.min())


def fixed_charge(seed: int, big_m: float, size: int = 8) -> tuple[Any, float]:
    """Return a fixed-charge model with big-M rows and its optimum by enumeration.

    Minimise ``sum f a + sum c y`` over ``sum y = demand``, ``y <= cap``, ``y <= big_m a``.
    """
    rng = np.random.default_rng(seed)
    charges, costs = rng.uniform(1.0, 5.0, size), rng.uniform(0.5, 2.0, size)
    caps = rng.uniform(1.0, 3.0, size)
    demand = float(caps.sum() * 0.5)
    model = pyo.ConcreteModel()
    model.a = pyo.Var(range(size), domain=pyo.Binary)
    model.y = pyo.Var(range(size), domain=pyo.NonNegativeReals)
    model.switch = pyo.Constraint(range(size))
    for k in range(size):
        model.y[k].setub(float(caps[k]))
        model.switch[k] = model.y[k] <= big_m * model.a[k]
    model.demand = pyo.Constraint(expr=sum(model.y.values()) == demand)
    model.objective = pyo.Objective(
        expr=sum(float(charges[k]) * model.a[k] + float(costs[k]) * model.y[k] for k in range(size))
    )
    best = np.inf
    order = np.argsort(costs)
    for pattern in itertools.product((False, True), repeat=size):
        chosen = [k for k in order.tolist() if pattern[k]]
        if sum(caps[k] for k in chosen) < demand:
            continue
        left, total = demand, sum(charges[k] for k in chosen)
        for k in chosen:
            amount = min(caps[k], left)
            total, left = total + costs[k] * amount, left - amount
        best = min(best, total)
    return model, float(best)


def kinked(seed: int, size: int = 4) -> tuple[Any, float]:
    """Return ``min g |x| + sum_k c_k max(w_k x + b_k, 0)`` with ordered sets, and its optimum.

    No variable has finite bounds on both sides; g is large enough for a minimum, which lies at a
    kink.  Without the sets the model is unbounded.
    """
    rng = np.random.default_rng(seed)
    slopes, offsets, costs = rng.normal(size=(3, size))
    costs[0] = -abs(costs[0])
    growth = 1.0 + float(np.abs(costs * slopes).sum())
    model = pyo.ConcreteModel()
    model.x, model.size = pyo.Var(), pyo.Var(domain=pyo.NonNegativeReals)
    model.on = pyo.Var(range(size), domain=pyo.NonNegativeReals)
    model.off = pyo.Var(range(size), domain=pyo.NonNegativeReals)
    model.above = pyo.Constraint(expr=model.size >= model.x)
    model.below = pyo.Constraint(expr=model.size >= -model.x)
    model.either = pyo.SOSConstraint(range(size), sos=1, rule=lambda m, k: [m.on[k], m.off[k]])
    model.split = pyo.Constraint(range(size))
    for k in range(size):
        line = float(slopes[k]) * model.x + float(offsets[k])
        model.split[k] = model.on[k] - model.off[k] == line
    kinked = sum(float(costs[k]) * model.on[k] for k in range(size))
    model.objective = pyo.Objective(expr=growth * model.size + kinked)
    kinks = np.array([0.0, *(-offsets / slopes)])
    ramps = np.maximum(np.outer(kinks, slopes) + offsets, 0.0)
    return model, float((growth * np.abs(kinks) + ramps @ costs).min())


def market_split(
    sense: Any, slack: bool = True, size: int = 45, rows: int = 5
) -> tuple[Any, list[int]]:
    """Return a market-split model that no solver finishes quickly, and a hidden optimum.

    Parameters
    ----------
    sense : ObjectiveSense
        Minimise the total slack, or maximise its negative; the optimum is zero.
    slack : bool
        Without slacks, the rows are equations that hardly a point satisfies; the objective is then
        the number of ones.
    """
    rng = np.random.default_rng(7)
    weights = rng.integers(0, 100, (rows, size))
    hidden = rng.integers(0, 2, size)
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(size), domain=pyo.Binary)
    model.over = pyo.Var(range(rows), domain=pyo.NonNegativeReals)
    model.under = pyo.Var(range(rows), domain=pyo.NonNegativeReals)
    model.rows = pyo.Constraint(range(rows))
    for row in range(rows):
        total = sum(float(weights[row, j]) * model.x[j] for j in range(size))
        if slack:
            total = total + model.over[row] - model.under[row]
        model.rows[row] = total == float(weights[row] @ hidden)
    sign = -1.0 if sense == MAX else 1.0
    if slack:
        expression = sum(sign * (model.over[row] + model.under[row]) for row in range(rows))
    else:
        expression = sum(model.x.values())
    model.objective = pyo.Objective(expr=expression, sense=sense)
    return model, [int(bit) for bit in hidden]


def start_at(model: Any, bits: list[int]) -> Any:
    """Return a start for `market_split`: the hidden point, slacks included."""
    start = pyo.ComponentMap((model.x[j], float(bit)) for j, bit in enumerate(bits))
    for group in (model.over, model.under):
        start.update((var, 0.0) for var in group.values())
    return start


def unbounded(sense: Any, integer: bool) -> Any:
    """Return an unbounded model."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=pyo.Integers if integer else pyo.Reals)
    model.y = pyo.Var(bounds=(0, 1))
    model.row = pyo.Constraint(expr=model.x + model.y >= 0.5 if sense == MAX else model.x <= 3)
    model.objective = pyo.Objective(expr=2 * model.x + 1, sense=sense)
    return model


def infeasible(sense: Any, kind: str) -> Any:
    """Return an infeasible model.

    Parameters
    ----------
    kind : str
        ``lp``; ``mip`` (its relaxation is feasible); ``ray`` (its relaxation is unbounded);
        ``bounds`` (crossed); ``constant`` (a row of fixed variables).
    """
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(3), bounds=(0, 10), domain=pyo.Reals if kind == "lp" else pyo.Integers)
    model.free = pyo.Var()
    model.objective = pyo.Objective(expr=sum(model.x.values()) + 3, sense=sense)
    total = model.x[0] + model.x[1]
    if kind == "lp":
        model.low = pyo.Constraint(expr=total >= 7)
        model.high = pyo.Constraint(expr=total <= 6)
    elif kind in ("mip", "ray"):
        model.odd = pyo.Constraint(expr=2 * model.x[0] + 4 * model.x[1] - 2 * model.x[2] == 3)
        if kind == "ray":
            model.link = pyo.Constraint(expr=model.free - model.x[0] >= -5)
            sign = 1.0 if sense == MAX else -1.0
            model.objective.expr = sum(model.x.values()) + sign * model.free
    elif kind == "bounds":
        model.x[0].setlb(5)
        model.x[0].setub(4)
        model.row = pyo.Constraint(expr=total >= 1)
    else:
        model.x[0].fix(1)
        model.x[1].fix(2)
        model.row = pyo.Constraint(expr=total == 4)
    return model
