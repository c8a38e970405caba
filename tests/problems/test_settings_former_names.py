"""Settings by their names of version 0.3: they work, with a warning that names the new one."""

from __future__ import annotations

import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Settings

PROBLEM = LipschitzProblem(Network.from_arrays([[[1.0, 2.0]], [[1.0]]]), Box(-1, 1, 2))


def test_threads_are_workers() -> None:
    with pytest.warns(DeprecationWarning, match="workers"):
        assert Settings(threads=3).workers == 3
    with pytest.warns(DeprecationWarning, match="workers"):
        assert lipyomo.solve(PROBLEM, threads=1).is_exact
