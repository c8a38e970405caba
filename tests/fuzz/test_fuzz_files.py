"""A few commands whose files meet every kind of trouble."""

from __future__ import annotations

import sys

import pytest

if sys.platform == "win32":
    pytest.skip("limits, signals and forks of POSIX", allow_module_level=True)

from fuzz_files import case, prepare


def test_nothing_is_lost() -> None:
    prepare()
    for seed in range(6):
        label, faults = case(seed)
        assert not faults, (seed, label, faults)
