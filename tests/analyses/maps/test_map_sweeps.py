"""Sweeps over boxes in a list: bounded together, with the answers of single solves."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
import networks
from lipyomo import Box, LipschitzProblem, Polytope, Status, sweep
from lipyomo.analyses.maps.stages import shares


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_those_of_single_solves(workers: int) -> None:
    network = networks.random_network(21, (3, 8, 7, 2))
    rng = np.random.default_rng(0)
    centers = rng.uniform(-1, 1, (8, 3))
    problems = [LipschitzProblem(network, Box(c - 0.1, c + 0.1), margin=0) for c in centers[:5]]
    problems += [LipschitzProblem(network, Box(c - 0.3, c + 0.3), "l2") for c in centers[5:]]
    rows = sorted(sweep(problems, workers=workers), key=lambda row: row.index)
    assert [row.index for row in rows] == list(range(8))
    assert any("together" in row.result.details for row in rows)
    for row, problem in zip(rows, problems, strict=True):
        alone, found = lipyomo.solve(problem), row.result
        assert found.status is Status.EXACT
        assert found.upper == pytest.approx(alone.upper, rel=2e-6)
        assert problem.value_at(found.witness.x).value >= found.lower * (1 - 1e-9)
        assert problem.domain.holds_inside(found.witness.x)
        assert set(problem.notes) <= set(found.warnings)


def test_what_cannot_be_joined_is_solved_alone() -> None:
    network = networks.random_network(22, (2, 5, 1))
    triangle = Polytope([[1.0, 1.0]], [1.0], 0.0, 1.0)
    domains = [Box(0, 1, 2), triangle, Box([0, 0], [1, 0]), Box(-1, 0, 2), Box(0, np.inf, 2)]
    problems = [LipschitzProblem(network, domain) for domain in domains]
    rows = list(sweep(problems, workers=1))
    assert [row.index for row in rows] == list(range(5))
    joined = [row.index for row in rows if "together" in row.result.details]
    assert set(joined) <= {0, 3}
    for row, problem in zip(rows, problems, strict=True):
        assert row.result.upper == pytest.approx(lipyomo.solve(problem).upper, rel=2e-6)


@pytest.mark.parametrize("cells", [1, 63, 64, 65, 1000, 4096, 100_000])
@pytest.mark.parametrize("workers", [0, 1, 2, 7])
def test_jobs_are_all_cells_once_and_the_last_ones_are_small(cells: int, workers: int) -> None:
    parts = shares(cells, workers)
    assert np.concatenate([np.arange(cells)[part] for part in parts]).tolist() == list(range(cells))
    sizes = [part.stop - part.start for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    if workers > 1 and cells >= 1000:
        assert len(parts) > workers
        assert sizes[-1] * workers < cells
