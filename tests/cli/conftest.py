"""Run the command line inside the test process, with toy methods beside the real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_forks import Forked, Forks
from cli_ran import Ran
from cli_toys import enrol

from lipyomo.cli.main import main
from lipyomo.methods import registry


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


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """``forks.run("net.onnx", "--box", "0,1")`` in a process of its own."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def start(forks: Forks) -> Callable[..., Forked]:
    """Start the command line, with the toys, in a process of its own."""
    return partial(forks.start, toys=True)


@pytest.fixture
def net(models: Path) -> Path:
    """A small network: 4 inputs, 3 outputs."""
    return models / "iris.onnx"


class _Here:
    """What `ChildProcess` does, in this process: the messages of a call once it has ended."""

    def __init__(self, function: Callable[..., Any], *arguments: object, **_: object) -> None:
        self._call = function, arguments

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        function, arguments = self._call
        told: list[tuple[Any, ...]] = []
        told.append(("done", function(lambda *message: told.append(message), *arguments)))
        return iter(told)


@pytest.fixture
def compared_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods are compared in this process; each in its own spends most time on imports."""
    monkeypatch.setattr("lipyomo.analyses.compare.run.ChildProcess", _Here)
