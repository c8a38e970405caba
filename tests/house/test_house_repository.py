"""The repository itself: no machine paths, no loose ends."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
BINARY = {".onnx", ".npz", ".npy", ".png", ".pdf", ".gz", ".data", ".bin", ".proof"}

# Written in pieces, so that this file does not find itself.
MACHINE = re.compile("|".join("/" + word + "/" for word in ("work", "opt", "tmp", "home", "root")))
LOOSE = re.compile(
    "|".join(
        (
            "TO" + "DO",
            "FIX" + "ME",
            "XX" + "X",
            "raise NotImplemented" + "Error",
            r"#\s*no" + "qa",
            r"type:\s*ig" + "nore",
            "pragma: no" + " cover",
            "except Excep" + "tion",
            r"except\s*" + ":",
        )
    )
)


def tracked() -> list[Path]:
    """Files of the repository: those that git knows, or all where there is no git."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and done.stdout:
        files = [ROOT / name for name in done.stdout.split("\0") if name]
    else:
        hidden = {".git", ".venv", "build", "dist", "__pycache__"}
        files = [p for p in ROOT.rglob("*") if not hidden & set(p.relative_to(ROOT).parts)]
    return [path for path in files if path.is_file() and path.suffix not in BINARY]


def test_no_machine_paths() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if MACHINE.search(line) and "https://" not in line:
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_no_loose_ends_in_the_source() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in SOURCE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LOOSE.search(line)
    ]
    assert not found, "\n".join(found)


def test_test_files_have_names_of_their_own() -> None:
    """Test modules are imported by their bare name, so two must not share one."""
    names = [p.name for p in (ROOT / "tests").rglob("*.py") if p.name != "conftest.py"]
    twice = {name for name in names if names.count(name) > 1 and name != "__init__.py"}
    assert not twice


WHOLE = {
    "conformance",
    "contract",
    "core",
    "docs",
    "embed",
    "experiments",
    "fuzz",
    "house",
    "models",
}
"""Rooms of tests of the whole, or of what lies in no folder of the package."""


def test_rooms_of_tests_are_named_as_those_of_the_package() -> None:
    rooms = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")}
    own = {room for room in rooms if room.parts and room.parts[0] not in WHOLE}
    assert own
    assert not [room for room in own if not (ROOT / "src" / "lipyomo" / room).is_dir()]


def test_the_licence_is_bsd3() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "BSD 3-Clause" in text
    assert "Redistribution and use in source and binary forms" in text
