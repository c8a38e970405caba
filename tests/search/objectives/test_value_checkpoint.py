"""Ranges go on from their checkpoints, whatever is searched, and refuse other people's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo.base.errors import MethodError
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


def _lie(**settings: Any) -> lipyomo.Range:
    V, box = _network([2, 10, 1], "tanh"), lipyomo.Box(-1, 1, 2)
    return lipyomo.lie_derivative(V, FIELD, box, **settings)


QUESTIONS = {
    "boxes and phases": _value([4, 10, 10, 1], 1.0),
    "phases": _value([14, 8, 8, 1], 0.4),
    "smooth": _value([2, 6, 6, 1], 2.0, "tanh"),
    "Lie derivative": _lie,
}


@pytest.mark.parametrize("polls", [8, 30])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_range_goes_on_from_its_checkpoint(tmp_path: Path, kind: str, polls: int) -> None:
    ask, file, asked = QUESTIONS[kind], tmp_path / "range", count()
    first = ask(checkpoint=file, should_stop=lambda: next(asked) >= polls)
    assert first.status == "interrupted"
    whole, rest = ask(), ask(checkpoint=file, resume=True)
    assert rest.is_exact
    ends = np.array([rest.low, rest.high])
    assert ends == pytest.approx(np.array([whole.low, whole.high]), rel=1e-6)
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


def test_questions_of_several_searches_refuse_a_checkpoint(tmp_path: Path) -> None:
    box, file = lipyomo.Box(-1, 1, 2), tmp_path / "state"
    network, smooth = _network([2, 4, 1]), _network([2, 4, 2], "tanh")
    problem = lipyomo.LipschitzProblem(network, box)
    for ask in (
        lambda: lipyomo.derivative_range(problem, direction=[1, 0], checkpoint=file),
        lambda: lipyomo.jacobian_ranges(problem, checkpoint=file),
        lambda: lipyomo.largest_value(problem, checkpoint=file),
        lambda: lipyomo.curvature(smooth, box, [1, 0], checkpoint=file),
        lambda: lipyomo.contraction(smooth, box, checkpoint=file),
    ):
        with pytest.raises(MethodError, match="checkpoint"):
            ask()
    assert not file.exists()


def test_settings_without_a_meaning_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    network, box = _network([2, 4, 1]), lipyomo.Box(-1, 1, 2)
    with pytest.warns(UserWarning, match="gap, solver"):
        lipyomo.value_range(network, box, gap=0.1, solver="highs")
    lipyomo.value_range(network, box, verbose=True)
    assert "largest value" in capsys.readouterr().out
