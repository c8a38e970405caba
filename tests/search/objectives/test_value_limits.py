"""Time limits of ranges: what is left once they are over is bounded without a search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lipyomo
import networks
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.analyses.questions import values
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.regions import value as exact_values
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import WantedBounds
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.objective import Largest
from lipyomo.search.objectives.pipeline import ValuePipeline


def made(seed: int, kind: str) -> Network:
    network = networks.random_network(seed, (3, 6, 5, 3))
    if kind == "relu":
        return network
    if kind == "dead":  # dead and duplicate units, no biases
        first, *rest = network.layers
        weight = first.weight.copy()
        weight[0], weight[2] = 0.0, weight[1]
        return Network([Layer(weight, 0.0 * first.bias, first.left, first.right), *rest])
    weights, biases = ([getattr(one, a) for one in network.layers] for a in ("weight", "bias"))
    return Network.from_arrays(weights, biases, activation=kind)


SLOW = values.PARAMS._replace(quick=0.0)
"""As if every network were large."""


@pytest.mark.parametrize("kind", ["relu", "dead", "tanh", "sin"])
@pytest.mark.parametrize("domain", [Box(-1, 1, 3), Box([-1, 0.2, 0], [1, 0.2, 1])], ids=str)
def test_without_time_a_range_is_bounded_at_once(
    kind: str, domain: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "PARAMS", SLOW)
    for seed in range(6):
        network, rng = made(seed, kind), np.random.default_rng(seed)
        points = rng.uniform(domain.lower, domain.upper, (500, 3))
        for row in (np.eye(3)[seed % 3], rng.standard_normal(3), np.array([1.0, 0.0, -1.0])):
            found = lipyomo.value_range(network, domain, row, time_limit=1e-9)
            reached = network.forward(points) @ row
            assert found.nodes == 0
            assert found.status is Status.TIME_LIMIT
            assert found.low[0] <= reached.min()
            assert reached.max() <= found.high[1]
            center = float(network.forward(domain.center) @ row)
            assert found.low[1] == pytest.approx(center)
            assert found.high[0] == pytest.approx(center)


@pytest.mark.parametrize("kind", ["relu", "tanh"])
def test_functionals_share_their_work_once_the_time_is_up(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass for the bounds of all outputs, and one for their values at the centre."""
    monkeypatch.setattr(values, "PARAMS", SLOW)
    counts = {"bounds": 0, "exact": 0}

    def counted(name: str, plain: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object, **keywords: object) -> object:
            counts[name] += 1
            return plain(*arguments, **keywords)

        return count

    plain = values.preactivation_bounds
    monkeypatch.setattr(values, "preactivation_bounds", counted("bounds", plain))
    if kind == "tanh":
        along = exact_values.units_along
        monkeypatch.setattr(exact_values, "units_along", counted("exact", along))
    else:
        at = exact_values.ExactSignal.at
        monkeypatch.setattr(exact_values.ExactSignal, "at", counted("exact", at))
    network = made(40, kind)
    problem = LipschitzProblem(network, Box(-1, 1, 3), output_norm="linf")
    found = lipyomo.largest_value(problem, time_limit=1e-9)
    assert counts == {"bounds": 1, "exact": 1}
    assert found.lower <= lipyomo.largest_value(problem).upper * (1 + 1e-9) <= found.upper


def test_dual_ascent_at_the_root_ends_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up once bounds have been propagated: nothing is tightened after that."""
    network, row = made(3, "relu"), np.array([1.0, 0.0, 0.0])

    def late(*_: object) -> None:
        raise AssertionError("an ascent begins after the limit")

    monkeypatch.setattr(DualAscent, "ascend", late)
    objective = Largest(ValueQuestion(network, row, Box(-1, 1, 3), 1.0, params=SLOW))
    root = ValuePipeline(objective).root(Clock(0.0), lambda **_: None).outcome
    bound = max([node.bound for node in root.children], default=root.closed)
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    assert bound >= (network.forward(points) @ row).max()
    assert root.best is not None
    assert root.best.value > -np.inf


def test_ascents_stop_between_parts_and_stay_valid() -> None:
    network = made(4, "relu")
    ascent, domain = DualAscent(network.hidden, Box(-1, 1, 3)), Box(-1, 1, 3)
    bounds = values.preactivation_bounds(network, domain)
    arrays = [np.concatenate(part)[None] for part in (bounds.phases, bounds.lower, bounds.upper)]
    relaxation = ascent.relax(*arrays, domain.lower[None], domain.upper[None])
    open_ = np.flatnonzero(arrays[0][0] == 0)
    rows = WantedBounds(np.zeros(open_.size, dtype=np.intp), open_, np.ones(open_.size))
    start = ascent.start(relaxation, rows)
    kept = ascent.ascend(relaxation, rows, start, 5, stop=lambda: True)
    assert (kept == start).all()
    assert np.isinf(ascent.bounds(relaxation, rows, start, stop=lambda: True)).all()
    better = ascent.bounds(relaxation, rows, ascent.ascend(relaxation, rows, start, 5))
    assert (better <= ascent.bounds(relaxation, rows, start) + 1e-9).all()
