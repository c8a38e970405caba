"""The page on the architecture names what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "develop" / "architecture.md"
PLACE = re.compile(r"`([\w/]+\.py)`:\s+((?:`[\w.]+`(?:,\s)?)+)")
SVG = "{http://www.w3.org/2000/svg}"
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
    """Each group of the picture is a wing, and what it names is in there, or in the whole."""
    home = ROOT / "src" / "lipyomo"
    picture = ElementTree.parse(ROOT / "docs" / "pictures" / "wings.svg")
    wings = {group.attrib["id"]: " ".join(group.itertext()) for group in picture.iter(f"{SVG}g")}
    assert set(wings) == {path.parent.name for path in home.glob("*/__init__.py")}
    missing = [
        f"{wing}: {name}"
        for wing, text in wings.items()
        for name in re.findall(r"\b\w+\.py\b|\b\w+/", text)
        if name != f"{wing}/" and not [*(home / wing).rglob(name.rstrip("/"))]
    ]
    assert not missing
