"""Errors travel between processes as they are, whatever arguments their class takes."""

from __future__ import annotations

import pickle

import pytest

from lipyomo.base.errors import ImportRefused, LipyomoError, MissingExtra, SolverError

ERRORS = [
    SolverError("there is no solver"),
    ImportRefused("a shape is unknown", node="relu", op_type="Relu", remedy="name it"),
    MissingExtra("gurobipy", "gurobi", "solving with Gurobi"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_its_journey(error: LipyomoError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
