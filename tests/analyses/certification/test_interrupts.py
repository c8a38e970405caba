"""Ctrl-C where rows are decided in this process: no further one is begun."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

import lipyomo
from interrupts import pressed
from lipyomo.search.engine.engine import Engine
from networks import random_network

WIDE = random_network(3, (12, 40, 40, 3))
POINTS = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 12))


def by_bnb() -> object:
    return lipyomo.certify_robustness(
        WIDE, POINTS, radius=3.0, methods=["bnb"], time_limit=60.0, workers=1
    )


def by_distance() -> object:
    return lipyomo.certify_robustness(
        WIDE, POINTS, radius=3.0, exact=True, methods=["exact"], time_limit=60.0, workers=1
    )


def by_solver() -> object:
    many = np.tile(POINTS, (20, 1))  # a row takes a second or two
    return lipyomo.certify_robustness(
        *(WIDE, many), radius=3.0, methods=["exact"], solver="highs", time_limit=60.0, workers=1
    )


def by_slopes() -> object:
    hard = {"functional": [1, 0, 0], "tolerance": 0.29}  # between the bounds of half a minute
    return lipyomo.check_monotone(
        *(WIDE, POINTS, 3.0), increasing=[0], time_limit=60.0, workers=1, **hard
    )


@pytest.mark.parametrize("ask", [by_bnb, by_distance, by_solver, by_slopes])
def test_ctrl_c_ends_all_rows(ask: Callable[[], object]) -> None:
    began = time.monotonic()
    with pressed(0.8), pytest.raises(KeyboardInterrupt):
        ask()
    assert time.monotonic() - began < 60.0  # which is what one row may take


def test_ctrl_c_counts_where_all_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row whose search has found all it looked for, nothing but proofs is left."""
    small, points = random_network(3, (4, 8, 8, 3)), POINTS[:, :4]
    proofs: list[Engine] = []

    def interrupted(engine: Engine) -> float:
        proofs.append(engine)
        if len(proofs) == 1:
            raise KeyboardInterrupt
        return math.inf

    monkeypatch.setattr(Engine, "_proved_upper", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lipyomo.certify_robustness(small, points, radius=3.0, methods=["bnb"], workers=1)
    assert len({id(engine) for engine in proofs}) == 1
