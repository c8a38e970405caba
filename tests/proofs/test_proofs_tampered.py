"""No node is closed by a floating-point bound that was not proved."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo.domains import Box
from lipyomo.network import Network
from lipyomo.problem import LipschitzProblem
from lipyomo.search.relu.part import Part
from lipyomo.search.relu.pipeline import Pipeline
from lipyomo.search.relu.run import branch_and_bound
from lipyomo.settings import Settings


@pytest.mark.parametrize("seed", range(3))
def test_dropped_targets_are_proved(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    sizes = [5, 7, 6, 3]
    weights = [rng.standard_normal((n, k)) for k, n in pairwise(sizes)]
    network = Network.from_arrays(weights, [rng.standard_normal(n) for n in sizes[1:]])
    unproved = []
    plain = Part.without_targets

    def watched(part: Part, cutoff: float) -> Part:
        node = part.node
        drop = node.target_bounds <= cutoff
        unproved.extend(node.proved[drop & (node.proved > cutoff)].tolist())
        return plain(part, cutoff)

    monkeypatch.setattr(Part, "without_targets", watched)
    # no points from sampling: incumbents come late, and overtake bounds that wait
    monkeypatch.setattr(Pipeline, "_improve", lambda *how: None)
    problem = LipschitzProblem(network, Box(-1, 1, 5), "linf", "linf")
    found, _ = branch_and_bound(problem, Settings())
    assert found.upper >= found.best.value
    assert found.complete
    assert not unproved
