"""Lie derivatives on shells of V, against samples and closed forms."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from lipyomo import Box, Network, lie_derivative, networks, value_range
from lipyomo.base.errors import ProblemError

LINES = Network.from_arrays([np.eye(2)], name="x")
POINTS = np.random.default_rng(0).uniform(-2, 2, (50_000, 2))


def plants() -> dict[str, Network]:
    return {
        "cubic": networks.residual(
            LINES, lambda u, x: [x[1] - x[0], -1 * x[0] - x[1] + 0.25 * x[0] ** 3]
        ),
        "van der Pol, backwards": networks.residual(
            LINES, lambda u, x: [-x[1], x[0] - x[1] + x[0] ** 2 * x[1]]
        ),
        "pendulum": networks.residual(LINES, lambda u, x: [x[1], -np.sin(x[0]) - 0.5 * x[1]]),
    }


def squares() -> Network:
    return networks.residual(LINES, lambda u, x: 1.5 * x[0] ** 2 - x[0] * x[1] + x[1] ** 2)


def trained() -> Network:
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(6, 2)), rng.normal(size=(1, 6))]
    return Network.from_arrays(weights, [0.3 * rng.normal(size=6), [0.0]], activation="tanh")


def kinked() -> Network:
    return Network.from_arrays([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [[1.0] * 4]])


SHELLS = {
    "squares": (squares(), (0.2, 1.5)),
    "tanh": (trained(), (-0.2, 0.3)),
    "relu": (kinked(), (0.5, 1.5)),
}


@pytest.mark.parametrize(
    ("of", "plant"),  # each twice, and all three of the function that was trained
    [
        *(("tanh", plant) for plant in plants()),
        *(("squares", plant) for plant in ("cubic", "pendulum")),
        *(("relu", plant) for plant in ("van der Pol, backwards", "pendulum")),
    ],
)
def test_all_samples_are_between_the_ends(of: str, plant: str) -> None:
    field, (V, shell) = plants()[plant], SHELLS[of]
    polls = count()
    enough = {"should_stop": lambda: next(polls) > 400}  # as long on any machine
    found = lie_derivative(V, field, Box(-2, 2, 2), shell=shell, **enough)
    level = V.forward(POINTS)[:, 0]
    some = POINTS[(shell[0] <= level) & (level <= shell[1])]
    values = (V.gradients(some, np.ones(1)) * field.forward(some)).sum(axis=1)
    size = np.abs(values).max()
    assert found.low[0] <= values.min() + 1e-9 * size
    assert values.max() - 1e-9 * size <= found.high[1]
    assert found.high[0] >= values.max() - 1e-2 * size
    assert found.low[1] <= values.min() + 1e-2 * size
    for at in found.witnesses:
        assert at is not None
        assert shell[0] <= V.forward(at.x)[0] <= shell[1]


def test_a_quadratic_form_on_shells() -> None:
    """V = |x|^2 along x' = -x: the derivative is -2 V."""
    V = networks.residual(LINES, lambda u, x: x[0] ** 2 + x[1] ** 2)
    field = (-np.eye(2), np.zeros(2))
    found = lie_derivative(V, field, Box(-2, 2, 2), shell=(0.25, 1.0))
    assert found.low[0] == pytest.approx(-2.0, rel=1e-5)
    assert found.high[1] == pytest.approx(-0.5, rel=1e-5)
    assert found.low[0] <= -2.0 <= -0.5 <= found.high[1]
    above = lie_derivative(V, field, Box(-2, 2, 2), shell=(0.25, np.inf))
    assert above.low[0] == pytest.approx(-16.0, rel=1e-5)


def test_the_whole_range_as_a_shell_changes_nothing() -> None:
    V, field, domain = trained(), plants()["pendulum"], Box(-1, 1, 2)
    levels = value_range(V, domain)
    ends = levels.low[0] - 1.0, levels.high[1] + 1.0
    one = lie_derivative(V, field, domain, time_limit=20)
    other = lie_derivative(V, field, domain, shell=ends, time_limit=20)
    assert (one.low[0], one.high[1]) == pytest.approx((other.low[0], other.high[1]), rel=1e-4)


def test_wrong_shells_are_refused() -> None:
    V, field = squares(), plants()["pendulum"]
    with pytest.raises(ProblemError, match="no point of the domain was found"):
        lie_derivative(V, field, Box(-1, 1, 2), shell=(100.0, 200.0))
    for shell in ((1.0, 0.5), (1.0,), (np.nan, 1.0)):
        with pytest.raises(ProblemError, match="shell"):
            lie_derivative(V, field, Box(-1, 1, 2), shell=shell)
