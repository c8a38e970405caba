"""The page on the architecture names what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "develop" / "architecture.md"
PLACE = re.compile(r"`([\w/]+\.py)`:\s+((?:`[\w.]+`(?:,\s)?)+)")
PATH = re.compile(r"`([\w/]+\.py|[\w/]+/)`")


def named() -> list[tuple[str, str]]:
    """Every file of the page with a name that is said to be in it."""
    text = PAGE.read_text(encoding="utf-8")
    return [
        (path, name)
        for path, names in PLACE.findall(text)
        for name in re.findall(r"`([\w.]+)`", names)
    ]


def defined(path: Path) -> set[str]:
    """Names of a file's functions and classes, and of what these hold, with dots."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            found |= {f"{node.name}.{item.name}" for item in inner}
    return found


@pytest.mark.parametrize(("path", "name"), named())
def test_what_the_page_names_is_there(path: str, name: str) -> None:
    assert name in defined(ROOT / "src" / "lipyomo" / path)


def test_the_page_names_enough_and_its_paths_exist() -> None:
    assert len(named()) > 30
    for path in PATH.findall(PAGE.read_text(encoding="utf-8")):
        assert (ROOT / "src" / "lipyomo" / path).exists(), path


def test_every_question_is_answered_by_a_place() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## Where is it?")[1].split("## How to add")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "?" in line]
    assert len(rows) >= 8
    assert all(PLACE.search(row) for row in rows)


def test_what_the_picture_names_is_there() -> None:
    picture = PAGE.read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    home = ROOT / "src" / "lipyomo"
    folders = home, home / "search", home / "search" / "relu"
    named = set(re.findall(r"[\w/]+\.py|\b\w+/(?=\s|:)", picture))
    assert len(named) > 15
    assert not [name for name in named if not any((one / name).exists() for one in folders)]
