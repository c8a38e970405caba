"""Searches with products of pairs of units: the same constants, and no looser roots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve
from lipyomo.affine.system import NodeForm
from lipyomo.bnb.checkpoint import load
from lipyomo.bnb.node import Node
from lipyomo.bnb.pairing import excluding_pairs
from lipyomo.bnb.tree import Tree
from lipyomo.bounds import preactivation_bounds
from lipyomo.bounds.dual_ascent import DualAscent
from lipyomo.bounds.pairs import Pairs
from lipyomo.phases import OPEN, RIGHT, flat
from lipyomo.run import Clock
from lipyomo.semidefinite.bounder import Bounder
from networks import mixed_network, random_network


@pytest.mark.parametrize("mixed", [False, True])
def test_constants_are_those_without_pairs(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on networks whose other kernels are cheaper, so that the answers are known."""
    used = []
    join = Node.join
    for seed in range(6):
        make = mixed_network if mixed else random_network
        network = make(seed, (4, 10, 9, 8, 2))
        problem = LipschitzProblem(network, Box(0.0, 0.7, 4), "linf", "linf")
        plain = solve(problem, "bnb")
        with monkeypatch.context() as patch:

            def yes(self: Bounder, form: NodeForm, target: int) -> bool:
                return True

            patch.setattr(Bounder, "takes_pairs", yes)

            def noted(node: Node, pairs: Pairs) -> None:
                used.append(pairs)
                join(node, pairs)

            patch.setattr(Node, "join", noted)
            with_pairs = solve(problem, "bnb")
        assert plain.status == with_pairs.status == "exact"
        assert with_pairs.lower == pytest.approx(plain.lower, rel=1e-9)
        assert with_pairs.upper == pytest.approx(plain.upper, rel=1e-6)
    assert sum(chosen.count for chosen in used) > 20


def test_a_stopped_search_goes_on_with_its_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: True)
    monkeypatch.setattr("lipyomo.bnb.tree.PAIRED_FROM", 0)
    problem = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")
    state, nodes = tmp_path / "state", [0]
    first = solve(
        problem,
        "bnb",
        checkpoint=state,
        progress=lambda news: nodes.append(news.nodes),
        should_stop=lambda: nodes[-1] >= 5,
    )
    assert first.status == "interrupted"
    saved = load(state, problem)
    assert saved.known is not None
    assert saved.nodes
    assert saved.pairs.count > 0
    assert max(node.pairs.count for node in saved.nodes) > 0
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
        tree = Tree(problem, np.random.default_rng(0), known=known)
        tree.climb(100, Clock())
        if not wanted:
            monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: False)
        (root,) = tree.root().children
        assert root.bound > tree.pool.best
        roots.append(root.bound)
        assert (root.pairs.count > 0) == wanted
    assert roots[0] < 0.999 * roots[1]


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("mixed", [False, True])
def test_pairs_found_at_nodes_change_no_constant(
    norm: str, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, found = mixed_network if mixed else random_network, []
    for seed in range(5):
        problem = LipschitzProblem(make(seed, (4, 10, 9, 8, 2)), Box(0.0, 0.8, 4), norm, "linf")
        plain = solve(problem, "bnb")
        with monkeypatch.context() as patch:
            patch.setattr("lipyomo.bnb.tree.PAIRED_FROM", 0)

            def keeping(*given: Any) -> list[Pairs]:
                found.extend(excluding_pairs(*given))
                return found[-len(given[1]) :]

            patch.setattr("lipyomo.bnb.tree.excluding_pairs", keeping)
            paired = solve(problem, "bnb")
        assert plain.status == paired.status == "exact"
        assert paired.lower == pytest.approx(plain.lower, rel=1e-9)
        assert paired.upper == pytest.approx(plain.upper, rel=1e-6)
    assert sum(pairs.count for pairs in found) > 20


@pytest.mark.parametrize("cornered", [False, True])
def test_no_point_of_a_node_has_both_sides_of_its_pairs(
    cornered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At many random points; also where all kinks meet in a corner of the domain."""
    total = 0
    noted: list[tuple[Node, Pairs]] = []

    def keeping(ascent: DualAscent, nodes: list[Node], *given: Any) -> list[Pairs]:
        pairs = excluding_pairs(ascent, nodes, *given)
        noted.extend(zip(nodes, pairs, strict=True))
        return pairs

    monkeypatch.setattr("lipyomo.bnb.tree.PAIRED_FROM", 0)
    monkeypatch.setattr("lipyomo.bnb.tree.excluding_pairs", keeping)
    for seed in (1, 2):
        network = random_network(seed, (3, 10, 10, 2))
        if cornered:
            weights = [np.rint(8.0 * layer.dense_weight) for layer in network.layers]
            network = Network.from_arrays(weights)
        domain = Box(0.0, 1.0, 3)
        solve(LipschitzProblem(network, domain, "linf", "linf"), "bnb")
        points = domain.sample(np.random.default_rng(seed), 20_000)
        on = np.concatenate(network.preactivations(points), axis=1) > 0
        found = [(node, pairs) for node, pairs in noted if node.phases.size == on.shape[1]]
        for node, pairs in found:
            decided = np.flatnonzero(node.phases != OPEN)
            inside = (on[:, decided] == (node.phases[decided] == RIGHT)).all(axis=1)
            here = on[inside & ((points >= node.low) & (points <= node.high)).all(axis=1)]
            assert not (here[:, pairs.first] & (here[:, pairs.second] == pairs.apart)).any()
        total += sum(pairs.count for _, pairs in found)
        noted.clear()
    assert total > 20
