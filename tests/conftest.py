"""Fixtures that all rooms share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# Several processes test at once, and some tests count CPU seconds: a core each, before NumPy loads.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Compiled modules are kept, whatever the environment says (containers often forbid it): otherwise
# each process that a test starts compiles the whole package again, half a second of its life.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes says more about who else uses the machine than about the example.
settings.register_profile(
    "busy", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")

# A shell without job control starts background jobs with Ctrl-C ignored, which Python and all its
# children would inherit; the tests of interruption need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected is kept: looking for garbage in it took a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)  # often enough: by default it takes 3 % of the tests' time


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Processes begin with a part of the tests each: those of a file share fixtures and caches.

    They take tests from each other at the end.  Another ``--dist`` than the default is heeded.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _one_process() -> Iterator[None]:
    """Rows are done in this process unless workers are asked for: others test at the same time.

    No file has to outlive the machine, and what nobody waits for on the disk costs nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lipyomo.base.system.parallel.usable_cores", lambda: 1)
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with networks and data of other groups; tests that need it skip without it."""
    folder = Path(os.environ.get("LIPYOMO_SHARED", ROOT.parent / "shared"))
    if not (folder / "reference" / "values.json").exists():
        pytest.skip(
            "compares with networks that others published (LipMIP, LipBaB, ExLipBaB, LipSDP, ...), "
            "which are not part of the project: LIPYOMO_SHARED names their folder"
        )
    return folder


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder with the project's own trained networks."""
    return ROOT / "models"
