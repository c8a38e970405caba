"""Rows held as matrices are what Pyomo's own constraints would be, for whoever reads them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyomo.environ as pyo
import pytest
import scipy.sparse as sp
from pyomo.contrib.fbbt.fbbt import fbbt
from pyomo.core.expr.visitor import identify_variables

from lipyomo.base.errors import SolverError
from lipyomo.solvers import solve_model
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.rows import Forms, MatrixRows

WEIGHT = np.array([[1.5, -2.0, 0.0], [0.0, 0.0, 0.0], [0.5, 3.0, -1.5], [2.0, 4.0, 6.0]])
BIAS = np.array([0.25, -1.0, 0.0, 2.0])
KEEP = [3, 0, 1]


def model(kind, held):
    """``y[k] == (W x + b)[KEEP[k]]`` and more, by matrices or by Pyomo's expressions."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), bounds=(-1, 2))
    m.y = pyo.Var(range(3), bounds=(-20, 20))
    m.extra = pyo.Constraint(expr=m.x[0] + m.y[1] <= 1.5)
    columns, keys = [m.x[0], m.x[1], m.x[0] if kind == "twice" else m.x[2]], ["a", "b", "c"]
    weight = sp.csr_array(WEIGHT) if kind == "sparse" else WEIGHT
    if held:
        forms = Forms.of(columns).map(weight, BIAS)
        m.rows = MatrixRows(keys, list(m.y.values()), forms, KEEP)
        m.rows.fill(keys)
    else:
        m.rows = pyo.Constraint(keys)
        for key, target, k in zip(keys, m.y.values(), KEEP, strict=True):
            terms = sum(WEIGHT[k, j] * columns[j] for j in range(3))
            m.rows[key] = terms + (-1.0) * target == -BIAS[k]
    m.goal = pyo.Objective(expr=m.y[0] - 3 * m.y[1] + m.y[2] - m.x[2], sense=pyo.maximize)
    return m


def fixed(m):
    m.x[1].fix(0.5)
    m.y[2].fix(-1.0)
    return m


def less(m):
    m.rows["b"].deactivate()
    return m


CHANGES = {
    "as built": lambda m: m,
    "fixed": fixed,
    "less": less,
    "cloned": lambda m: m.clone(),
    "pickled": lambda m: pickle.loads(pickle.dumps(m)),
}


def system(m):
    """Rows of a compiled model by the name of their constraint, dense over all variables."""
    form = compile_model(m)
    names = [variable.name for variable in form.columns]
    rows = {}
    for con, row, low, high in zip(
        form.constraints, form.matrix.toarray(), form.row_lower, form.row_upper, strict=True
    ):
        entries = {n: c for n, c in zip(names, row.tolist(), strict=True) if c}
        rows[con.name] = (entries, low, high)
    return rows


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "twice"])
def test_rows_compile_to_what_expressions_compile_to(kind, change):
    ours, plain = (CHANGES[change](model(kind, held)) for held in (True, False))
    assert system(ours) == system(plain)
    assert [row.active for row in ours.rows.values()] == [c.active for c in plain.rows.values()]
    best = [solve_model(m, "highs").incumbent for m in (ours, plain)]
    assert best[0] == pytest.approx(best[1], abs=1e-9)


@pytest.mark.parametrize("solver", ["appsi_highs", "highs"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "twice"])
def test_pyomo_reads_the_rows(kind, solver):
    best = []
    for held in (True, False):
        m = model(kind, held)
        pyo.SolverFactory(solver).solve(m)
        best.append(pyo.value(m.goal))
        for row in m.rows.values():
            assert row.equality
            assert row.lslack() == pytest.approx(0.0, abs=1e-8)
    assert best[0] == pytest.approx(best[1], abs=1e-9)


@pytest.mark.parametrize("suffix", ["lp", "mps", "nl"])
def test_files_are_the_same(suffix, tmp_path):
    texts = []
    for held in (True, False):
        path = tmp_path / f"{held}.{suffix}"
        model("dense", held).write(str(path), io_options={"symbolic_solver_labels": True})
        texts.append(path.read_text())
    assert texts[0] == texts[1]


def test_a_row_is_a_constraint():
    m = model("dense", True)
    row = m.rows["a"]
    assert row.ctype is pyo.Constraint
    assert row.name == "rows[a]"
    assert row.index() == "a"
    assert (row.lb, row.ub) == (-2.0, -2.0)
    assert [v.name for v in identify_variables(row.body)] == ["x[0]", "x[1]", "x[2]", "y[0]"]
    row.set_value(m.y[0] <= 7.0)
    assert row.lb is None
    assert row.ub == 7.0
    assert system(m)["rows[a]"] == ({"y[0]": 1.0}, -np.inf, 7.0)
    m.rows.deactivate()
    assert set(system(m)) == {"extra"}


def test_parts_of_one_row_belong_to_one_expression():
    m = model("dense", True)
    assert m.rows["a"].body is m.rows["a"].expr.args[0]
    copy = m.clone()
    assert {v.model() for v in identify_variables(copy.rows["a"].body)} == {copy}
    fbbt(m)
    assert m.y[0].lb == pytest.approx(-10.0)


def test_nothing_stays_set_aside_after_an_error():
    m = model("dense", True)
    m.x[0].fix(None, skip_validation=True)
    m.x[0].set_value(None)
    with pytest.raises(SolverError, match="x\\[0\\]"):
        compile_model(m)
    assert all(row.active for row in m.rows.values())


def test_infeasible_rows_are_seen():
    m = model("dense", True)
    m.y[2].fix(5.0)
    assert "rows[c]" in (compile_model(m).infeasible or "")


def test_threads_may_compile_one_model():
    m = model("dense", True)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: compile_model(m).size, range(40)))
    assert set(found) == {(4, 6)}


def test_wrong_numbers_are_told_by_name():
    m = model("dense", False)
    m.idle = pyo.Var()
    m.idle.fix(None, skip_validation=True)
    assert compile_model(m).size == (4, 6)
    m.scale = pyo.Param(mutable=True, initialize=float("nan"))
    m.wrong = pyo.Constraint(expr=m.scale * m.x[0] <= 1)
    m.idle.fix(1.0)
    with pytest.raises(SolverError, match="'wrong' holds NaN"):
        compile_model(m)
    m.wrong.deactivate()
    m.bent = pyo.Constraint(expr=m.x[0] * m.x[1] + m.scale * m.x[2] <= 1)
    with pytest.raises(SolverError, match="'bent' holds NaN"):
        compile_model(m)
    m.bent.deactivate()
    m.goal.expr = m.goal.expr + m.scale
    with pytest.raises(SolverError, match="the objective holds NaN"):
        compile_model(m)
