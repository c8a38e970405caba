"""Memory that arrays leave behind is used again, instead of being asked for page by page."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from lipyomo.base.arrays import keep_memory

def faults(rounds=50, pieces=8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        kept = [np.ones(200_000) for _ in range(pieces)]
        del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_memory()
faults(1)
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the GNU C library's behaviour")
def test_freed_arrays_leave_their_memory_to_the_next_ones():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before, after = (int(number) for number in run.stdout.split())
    assert after < 1000 < before
