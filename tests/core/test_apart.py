"""Calls in processes of their own: their values, their errors, and their end."""

from __future__ import annotations

import math
import time

import pytest

from lipyomo.apart import apart
from lipyomo.decimals import up
from lipyomo.errors import SolverError
from lipyomo.solvers.registry import resolve_settings


def test_a_value_comes_back() -> None:
    assert apart(math.hypot, 3.0, 4.0, stop=lambda: False) == 5.0
    assert apart(up, 0.5, stop=lambda: False) == up(0.5)


def test_errors_of_lipyomo_come_back() -> None:
    with pytest.raises(Exception, match="no/such/file"):
        apart(resolve_settings, "no/such/file.toml", stop=lambda: False)


def test_a_call_that_never_ends_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(SolverError, match="stopped"):
        apart(time.sleep, 1000.0, stop=lambda: time.monotonic() - began > 1.0)
    assert time.monotonic() - began < 10.0


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(SolverError, match="died"):
        apart(exit, 3, stop=lambda: False)
