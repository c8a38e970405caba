"""Ranges go on from their checkpoints, whatever is searched, and refuse other people's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo.search.engine.checkpoint import CheckpointError

FIELD = ([[-1.0, 0.3], [0.2, -1.0]],)


def _network(sizes: list[int], activation: str | None = None) -> lipyomo.Network:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(b, a)) * 1.5 / a**0.5 for a, b in pairwise(sizes)]
    smooth = {} if activation is None else {"activation": activation}
    return lipyomo.Network.from_arrays(weights, **smooth)


def _value(sizes: list[int], radius: float, activation: str | None = None) -> Callable[..., Any]:
    network, box = _network(sizes, activation), lipyomo.Box(-radius, radius, sizes[0])
    return lambda **settings: lipyomo.value_range(network, box, **settings)


def _on(sizes: list[int], radius: float, activation: str | None = None) -> lipyomo.LipschitzProblem:
    box = lipyomo.Box(-radius, radius, sizes[0])
    return lipyomo.LipschitzProblem(_network(sizes, activation), box)


def _derivative(problem: lipyomo.LipschitzProblem) -> Callable[..., Any]:
    along = np.eye(problem.network.input_dim)[0]
    return lambda **settings: lipyomo.derivative_range(problem, None, along, **settings)


def _table(problem: lipyomo.LipschitzProblem) -> Callable[..., Any]:
    return lambda **settings: lipyomo.jacobian_ranges(problem, **settings)


def _curvature(**settings: Any) -> Any:
    return lipyomo.curvature(_network([2, 4, 1], "tanh"), lipyomo.Box(-1, 1, 2), **settings)


def _contraction(**settings: Any) -> lipyomo.Range:
    metric, box = [[2.0, 0.3], [0.3, 1.0]], lipyomo.Box(-0.25, 0.25, 2)
    return lipyomo.contraction(_network([2, 3, 2], "tanh"), box, metric, **settings)


def _smoothness(**settings: Any) -> lipyomo.Result:
    return lipyomo.smoothness(_network([2, 3, 2], "tanh"), lipyomo.Box(-1, 1, 2), **settings)


def _ends(found: Any) -> list[float]:
    """All ends that an answer has."""
    if isinstance(found, lipyomo.Result):
        return [found.lower, found.upper]
    if isinstance(found, lipyomo.Range):
        return [*found.low, *found.high]
    if isinstance(found, lipyomo.JacobianRanges):
        return [end for row in found.entries for entry in row for end in _ends(entry)]
    return [*found.least, *found.largest]


def _lie(**settings: Any) -> lipyomo.Range:
    V, box = _network([2, 10, 1], "tanh"), lipyomo.Box(-1, 1, 2)
    return lipyomo.lie_derivative(V, FIELD, box, **settings)


QUESTIONS = {
    "boxes and phases": _value([4, 10, 10, 1], 1.0),
    "phases": _value([14, 8, 8, 1], 0.4),
    "smooth": _value([2, 6, 6, 1], 2.0, "tanh"),
    "Lie derivative": _lie,
}

OTHERS = {
    "derivative, smooth": (_derivative(_on([2, 6, 6, 1], 2.0, "tanh")), 109),
    "derivative, phases": (_derivative(_on([6, 6, 6, 1], 0.5)), 500),
    "table, smooth": (_table(_on([2, 6, 6, 2], 2.0, "tanh")), 200),
    "table, phases": (_table(_on([2, 4, 4, 2], 1.0)), 500),
    "curvature": (_curvature, 90),
    "contraction": (_contraction, 700),
    "smoothness": (_smoothness, 90),
}
"""With the polls after which each is stopped: in the midst of a search that is not the first."""


@pytest.mark.parametrize("kind", OTHERS)
def test_searches_of_a_question_go_on_from_its_checkpoint(tmp_path: Path, kind: str) -> None:
    (ask, polls), file, asked = OTHERS[kind], tmp_path / "state", count()
    first = ask(checkpoint=file, should_stop=lambda: next(asked) >= polls)
    assert first.status == "interrupted"
    rest = ask(checkpoint=file, resume=True)
    whole = ask()
    assert rest.status == whole.status == "exact"
    assert _ends(rest) == pytest.approx(_ends(whole), abs=2e-6)  # by at most two tolerances
    again = ask(checkpoint=file, resume=True)  # nothing is left to be searched
    assert (_ends(again), again.nodes) == (_ends(rest), rest.nodes)


@dataclass
class Memory:
    """Keeps the state of a search without a file."""

    state: dict[str, Any] | None = None
    trouble: str | None = None

    def save(self, state: dict[str, Any]) -> None:
        self.state = state


def test_bounds_of_entries_are_not_taken_if_less_is_attained() -> None:
    """They are above what was attained, and say nothing without it."""
    problem, memory, asked = _on([2, 6, 6, 2], 2.0, "tanh"), Memory(), count()
    lipyomo.jacobian_ranges(problem, checkpoint=memory, should_stop=lambda: next(asked) >= 200)
    state = memory.state
    assert state is not None
    state["0/known/attained"] = state["0/known/attained"] + 1.0
    state["0/known/proved"] = -state["0/known/attained"]
    rest, whole = lipyomo.jacobian_ranges(problem, checkpoint=memory), _table(problem)()
    assert _ends(rest) == pytest.approx(_ends(whole), abs=2e-6)  # by at most two tolerances


@pytest.mark.parametrize(("kind", "polls"), list(zip(QUESTIONS, (8, 30, 8, 30), strict=True)))
def test_a_range_goes_on_from_its_checkpoint(tmp_path: Path, kind: str, polls: int) -> None:
    ask, file, asked = QUESTIONS[kind], tmp_path / "range", count()
    first = ask(checkpoint=file, should_stop=lambda: next(asked) >= polls)
    assert first.status == "interrupted"
    whole, rest = ask(), ask(checkpoint=file, resume=True)
    assert rest.is_exact
    ends = np.array([rest.low, rest.high])
    assert ends == pytest.approx(np.array([whole.low, whole.high]), abs=whole.tolerance)
    assert rest.nodes >= first.nodes
    again = ask(checkpoint=file, resume=True)
    assert (again.low, again.high, again.nodes) == (rest.low, rest.high, rest.nodes)
    with pytest.raises(CheckpointError, match="already"):
        ask(checkpoint=file)


def test_the_checkpoint_of_another_question_is_refused(tmp_path: Path) -> None:
    file, box = tmp_path / "range", lipyomo.Box(-1, 1, 2)
    network = _network([2, 4, 2])
    lipyomo.value_range(network, box, [1, 0], checkpoint=file)
    with pytest.raises(CheckpointError, match="another functional"):
        lipyomo.value_range(network, box, [0, 1], checkpoint=file, resume=True)
    with pytest.raises(CheckpointError, match="another domain"):
        lipyomo.value_range(network, lipyomo.Box(-1, 2, 2), [1, 0], checkpoint=file, resume=True)


def test_settings_without_a_meaning_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    network, box = _network([2, 4, 1]), lipyomo.Box(-1, 1, 2)
    with pytest.warns(UserWarning, match="gap, solver"):
        lipyomo.value_range(network, box, gap=0.1, solver="highs")
    lipyomo.value_range(network, box, verbose=True)
    assert "largest value" in capsys.readouterr().out
