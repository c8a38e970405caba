"""Questions enter few files, so that the code of one can be walked through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import lipyomo
import lipyomo_check
from lipyomo import Box, LipschitzProblem
from lipyomo.proofs import write_proof

MODELS = Path(__file__).parents[2] / "models"
PACKAGES = Path(lipyomo.__file__).parent, Path(lipyomo_check.__file__).parent


def _iris() -> LipschitzProblem:
    return LipschitzProblem(lipyomo.load(MODELS / "iris.onnx"), Box(0, 8, 4))


def _solve(folder: Path) -> Callable[[], object]:
    problem = _iris()
    return lambda: lipyomo.solve(problem)


def _map(folder: Path) -> Callable[[], object]:
    problem = LipschitzProblem(lipyomo.load(MODELS / "pendulum.onnx"), Box(-1, 1, 2))
    return lambda: lipyomo.map_cells(problem, (2, 2))


def _proof(folder: Path) -> Callable[[], object]:
    problem = _iris()
    found = lipyomo.solve(problem)
    return lambda: write_proof(folder / "proof", problem, found)


def _range(folder: Path) -> Callable[[], object]:
    problem = _iris()
    return lambda: lipyomo.value_range(problem.network, problem.domain, [1, 0, 0])


def _entered(question: Callable[[], object]) -> set[str]:
    """The files of the package of which a question calls a function."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        question()
    finally:
        sys.setprofile(before)
    files = {
        path.relative_to(folder.parent)
        for path in map(Path, found)
        for folder in PACKAGES
        if path.is_relative_to(folder)
    }
    # with few inputs boxes are looked at now and then, by the clock
    return {path.as_posix() for path in files if "joint" not in path.parts}


@pytest.mark.parametrize(("asked", "most"), [(_solve, 77), (_map, 49), (_proof, 60), (_range, 41)])
def test_a_question_enters_few_files(
    asked: Callable[[Path], Callable[[], object]], most: int, tmp_path: Path
) -> None:
    (tmp_path / "before").mkdir()
    asked(tmp_path / "before")()  # all that it needs is imported
    entered = _entered(asked(tmp_path))
    assert len(entered) <= most, sorted(entered)
