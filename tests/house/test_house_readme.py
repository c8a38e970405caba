"""What README and docs promise about commands and options exists."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lipyomo.base import errors
from lipyomo.cli.main import SUBCOMMANDS, main
from lipyomo.cli.parser import main_parser

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "experiments" / "research").glob("*.md")),
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHERS = {"--print", "--upgrade", "--editable", "--check", "--durations", "--fix"}
"""Options of other programs: .ci/run, pip, ruff, pytest."""


def _after(marker: str) -> str:
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {marker} -->\n```console\n\$ (.*)\n", text)
    assert found, f"README.md has no command after <!-- {marker} -->"
    return found[1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_ci_runs_the_command_of_the_readme() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run"), "--print"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == _after("install-and-test")


def test_the_two_commands_come_first() -> None:
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", text, flags=re.MULTILINE)
    assert commands[0] == _after("install-and-run")
    assert commands[1] == _after("install-and-test")
    assert commands[0].startswith("pip install . && python -m lipyomo ")
    assert commands[1].startswith('pip install ".[test]" && python -m pytest')


def test_ci_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    for tool in ("ruff check", "ruff format --check", "mypy"):
        assert tool in script.read_text(encoding="utf-8")


def _options(parser: argparse.ArgumentParser) -> set[str]:
    return {word for action in parser._actions for word in action.option_strings}


def _known_options() -> set[str]:
    known = _options(main_parser()) | OTHERS
    for name in SUBCOMMANDS:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert main([name, "--help-all"]) == 0
        known |= set(OPTION.findall(shown.getvalue()))
    for script in ROOT.glob("experiments/**/*.py"):
        known |= set(OPTION.findall(script.read_text(encoding="utf-8")))
    for script in [*ROOT.glob("models/*.py"), *ROOT.glob("tests/fuzz/*.py")]:
        known |= set(OPTION.findall(script.read_text(encoding="utf-8")))
    return known


def test_no_stale_options() -> None:
    known = _known_options()
    stale = [
        f"{page.relative_to(ROOT)}: {word}"
        for page in PAGES
        for word in OPTION.findall(re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8")))
        if word not in known
    ]
    assert not stale, stale


def test_links_between_pages_lead_somewhere() -> None:
    dead = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert not dead, dead


def test_every_error_class_is_explained() -> None:
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert ".. automodule:: lipyomo.base.errors\n" in reference
    classes = [
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.LipyomoError)
    ]
    assert len(classes) > 5
    assert not [one.__name__ for one in classes if not vars(one).get("__doc__")]
