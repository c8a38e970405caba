"""Searches with products of pairs of units: the same constants, and no looser roots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve
from lipyomo.affine.system import NodeForm
from lipyomo.bounds import preactivation_bounds
from lipyomo.phases import flat
from lipyomo.run import Clock
from lipyomo.search.checkpoint import Checkpoint
from lipyomo.search.relu.context import Context, Question
from lipyomo.search.relu.pipeline import Pipeline
from lipyomo.search.relu.saved import decode, owner_of
from lipyomo.semidefinite.bounder import Bounder
from networks import mixed_network, random_network


@pytest.mark.parametrize("mixed", [False, True])
def test_constants_are_those_without_pairs(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on networks whose other kernels are cheaper, so that the answers are known."""
    used = []
    paired = Context.with_pairs
    for seed in range(6):
        make = mixed_network if mixed else random_network
        network = make(seed, (4, 10, 9, 8, 2))
        problem = LipschitzProblem(network, Box(0.0, 0.7, 4), "linf", "linf")
        plain = solve(problem, "bnb")
        with monkeypatch.context() as patch:

            def yes(self: Bounder, form: NodeForm, target: int) -> bool:
                return True

            patch.setattr(Bounder, "takes_pairs", yes)
            patch.setattr(Context, "with_pairs", lambda *got: used.append(got[2]) or paired(*got))
            with_pairs = solve(problem, "bnb")
        assert plain.status == with_pairs.status == "exact"
        assert with_pairs.lower == pytest.approx(plain.lower, rel=1e-9)
        assert with_pairs.upper == pytest.approx(plain.upper, rel=1e-6)
    assert sum(chosen.count for chosen in used) > 20


def test_a_stopped_search_goes_on_with_its_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: True)
    problem = LipschitzProblem(random_network(3, (9, 16, 16, 2)), Box(0, 1, 9), "linf", "cross")
    state, nodes = tmp_path / "state", [0]
    first = solve(
        problem,
        "bnb",
        checkpoint=state,
        progress=lambda news: nodes.append(news.nodes),
        should_stop=lambda: nodes[-1] >= 5,
    )
    assert first.status == "interrupted"
    arrays = Checkpoint(state, owner_of(problem), resume=True).state
    assert arrays is not None
    saved = decode(arrays)
    assert saved.known is not None
    assert saved.nodes
    assert saved.pairs.count >= saved.chosen.count > 0
    second = solve(problem, "bnb", checkpoint=state, resume=True)
    assert second.status == "exact"
    assert second.upper <= first.upper * (1 + 1e-12)
    assert second.lower == pytest.approx(solve(problem, "bnb").lower, rel=1e-9)


def test_pairs_lower_the_root_of_a_wide_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that see five features of 300 inputs exclude each other's sides often."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((5, 300)) / 20.0
    first = rng.standard_normal((150, 5)) @ features
    second, last = rng.standard_normal((60, 150)) / 12.0, rng.standard_normal((1, 60))
    center = rng.uniform(0.0, 1.0, 300)
    biases = [0.1 * rng.standard_normal(150) - first @ center, np.zeros(60), np.zeros(1)]
    network = Network.from_arrays([first, second, last], biases)
    problem = LipschitzProblem(network, Box(center - 0.05, center + 0.05), "linf", "linf")
    known = flat(preactivation_bounds(network, problem.domain).phases)
    roots = []
    for wanted in (True, False):
        if not wanted:
            monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: False)
        pipeline = Pipeline(Question(problem, known=known))
        (root,) = pipeline.root(Clock(), lambda upper=np.inf, best=None: None).outcome.children
        best = pipeline.improve(1.0, [], Clock())
        assert best is not None
        assert root.bound > best.value
        roots.append(root.bound)
        assert (pipeline.recipe().question.chosen.count > 0) == wanted
    assert roots[0] < 0.999 * roots[1]
