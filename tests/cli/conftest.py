"""Run the command line inside the test process, with toy methods beside the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_ran import Ran
from cli_toys import enrol

from lipyomo.cli.main import main
from lipyomo.methods import registry

HERE = Path(__file__).resolve().parent


@pytest.fixture
def toys() -> Iterator[None]:
    """The toy methods, for one test."""
    before = registry.methods()
    enrol()
    yield
    registry._METHODS.clear()
    registry._METHODS.update(before)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], toys: None) -> Callable[..., Ran]:
    """``cli("net.onnx", "--box", "0,1")`` in this process."""

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start the command line, with the toys, as a process of its own."""

    def popen(*words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(HERE / "cli_toys.py"), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    return popen


@pytest.fixture
def net(models: Path) -> Path:
    """A small network: 4 inputs, 3 outputs."""
    return models / "iris.onnx"
