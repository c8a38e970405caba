"""Numbers, times and norms are read as people write them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lipyomo
from lipyomo.base.errors import LipyomoError, MethodError, NormError
from lipyomo.base.quantities import norm_name, read_number, read_seconds


def test_numbers() -> None:
    assert read_number("8/255") == 8 / 255
    assert read_number("0.25") == 0.25
    for text in ("8/", "/3", "8/0", "1/2/3", "a"):
        with pytest.raises(ValueError):
            read_number(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        ("1m", 60.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1.5 min", 90.0),
        ("1d", 86400.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds
    assert lipyomo.Settings(time_limit=text).time_limit == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "1m!", "1..5m", "five"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        read_seconds(text)
    with pytest.raises(MethodError, match="time limit"):
        lipyomo.Settings(time_limit=text)


def test_norms() -> None:
    for given in (2, 2.0, "2", "L2", " l_2", "l-2"):
        assert norm_name(given) == "l2"
    for given in (math.inf, np.inf, "inf", "Linf", "L_inf", "LINF", "l\N{INFINITY}"):
        assert norm_name(given) == "linf"
    for given in (3, "l3", "cross", None, True, ["l2"], -2, -math.inf, "-2", "-inf", "i n f"):
        assert norm_name(given) is given


def test_norms_by_number_are_taken_everywhere() -> None:
    network = lipyomo.Network.from_arrays([[[1.0, 2.0], [0.0, 1.0]], [[1.0, -1.0]]])
    domain = lipyomo.ball([0.0, 0.0], 1.0, 2)
    assert domain.norm == "l2"
    problem = lipyomo.LipschitzProblem(network, domain, 2, "L2")
    assert (problem.norm, problem.output_norm.name) == ("l2", "l2")
    plain = lipyomo.LipschitzProblem(network, lipyomo.ball([0.0, 0.0], 1.0, "l2"), "l2", "l2")
    assert lipyomo.solve(problem).upper == lipyomo.solve(plain).upper
    found = lipyomo.lipschitz(network, norm="L2", center=0.0, radius=1.0)
    two = lipyomo.Network.from_arrays([[[1.0, 2.0], [0.0, 1.0]], [[1.0, -1.0], [0.5, 1.0]]])
    assert found.upper == pytest.approx(lipyomo.solve(plain).upper)
    report = lipyomo.certify_robustness(two, [[0.5, 0.2]], radius=0.01, norm=2, time_limit="1m")
    assert report.rows[0].error is None
    for wrong in (3, "l3"):
        with pytest.raises(NormError):
            lipyomo.LipschitzProblem(network, domain, wrong)
    with pytest.raises(LipyomoError):
        lipyomo.ball([0.0], 1.0, 3)
