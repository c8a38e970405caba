"""No node is closed by a floating-point bound that was not proved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo.bnb.driver import Search
from lipyomo.bnb.tree import Part, Tree
from lipyomo.domains import Box
from lipyomo.network import Network
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings


@pytest.mark.parametrize("seed", range(3))
def test_dropped_targets_are_proved(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    sizes = [5, 7, 6, 3]
    weights = [rng.standard_normal((n, k)) for k, n in pairwise(sizes)]
    network = Network.from_arrays(weights, [rng.standard_normal(n) for n in sizes[1:]])
    unproved = []
    plain = Tree._drop_targets

    def watched(tree: Tree, part: Part) -> bool:
        node = part.node
        drop = node.target_bounds <= tree.cutoff
        unproved.extend(node.proved[drop & (node.proved > tree.cutoff)].tolist())
        return plain(tree, part)

    monkeypatch.setattr(Tree, "_drop_targets", watched)
    # no points from sampling: incumbents come late, and overtake bounds that wait
    monkeypatch.setattr(Tree, "climb", lambda tree, *how: None)
    problem = LipschitzProblem(network, Box(-1, 1, 5), "linf", "linf")
    outcome = Search(problem, Settings()).run()
    assert outcome.upper >= outcome.lower
    assert not unproved
