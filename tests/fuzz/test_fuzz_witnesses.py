"""Some witnesses of all questions against rational numbers."""

from __future__ import annotations

import pytest
from fuzz_witnesses import faults


@pytest.mark.parametrize("seed", range(3))
def test_every_witness_attains_its_end(seed: int) -> None:
    assert not faults(seed)
