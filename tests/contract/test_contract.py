"""The conformance suite on every solver that is installed here."""

from __future__ import annotations

from typing import Any

import pytest

from conformance import SolverContract
from lipyomo.solvers.registry import make_solver
from lipyomo.solvers.settings import load_settings

SETTINGS = load_settings()


def make(name: str) -> Any:
    """Return the adapter of a name; skip if its solver is not installed."""
    entry = SETTINGS.entry(name)
    solver = make_solver(entry, SETTINGS.source)
    if not solver.available():
        pytest.skip(f"{name} is not installed ({entry.install})")
    return solver


class TestHighs(SolverContract):
    def make_solver(self) -> Any:
        return make("highs")


class TestGurobi(SolverContract):
    def make_solver(self) -> Any:
        return make("gurobi")


class TestCplex(SolverContract):
    def make_solver(self) -> Any:
        return make("cplex")


class TestScip(SolverContract):
    def make_solver(self) -> Any:
        return make("scip")


class TestCbc(SolverContract):
    def make_solver(self) -> Any:
        return make("cbc")
