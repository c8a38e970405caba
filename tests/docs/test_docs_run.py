"""Every code block of the README and of docs/ runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import Block, read_blocks, read_commands

from experiments.benchmark.__main__ import main as benchmark
from lipyomo.cli.main import main
from lipyomo.cli.tables import markdown
from lipyomo.formats.onnx.lower import registry as lowerings
from lipyomo.methods import registry
from lipyomo.search.spaces.phases import heuristics, score

activations = importlib.import_module("lipyomo.networks.activations.activation")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "experiments" / "research").glob("*.md")),
]
TABLES = (
    (registry, "_METHODS"),
    (lowerings, "_LOWERINGS"),
    (activations, "_TABLE"),
    (heuristics, "_TABLE"),
    (score, "_RULES"),
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DATA = ("text", "toml", "json")
DIRECTIVE = re.compile(r"\{[\w-]+\}")
NOT_HERE = (
    "pip install",
    "python -m pytest",
    ".ci/run",
    "python -m sphinx",
    "ruff",
    "mypy",
    "git ",
)
"""Commands that install, or that run these very tests or the linters: `.ci/run` does so."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory that looks like a clone, where files may be written."""
    for entry in ("models", "experiments"):
        if (ROOT / entry).exists():
            (tmp_path / entry).symlink_to(ROOT / entry)
    monkeypatch.chdir(tmp_path)
    registry.methods()  # loads all of them
    activations.activations()
    lowerings.supported()
    for module, table in TABLES:  # pages may add to them
        monkeypatch.setattr(module, table, dict(getattr(module, table)))
    yield tmp_path
    logging.disable(logging.NOTSET)  # pages may silence it, for the whole process


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_have_a_known_language(page: Path) -> None:
    for block in read_blocks(page):
        known = ("python", "console", *DATA)
        assert block.language in known or DIRECTIVE.fullmatch(block.language), (
            f"{name(page)}:{block.line}: unknown language '{block.language}'"
        )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_line_of_code_is_wider_than_the_page(page: Path) -> None:
    for block in read_blocks(page):
        if not DIRECTIVE.fullmatch(block.language):
            for number, line in enumerate(block.text.splitlines(), block.line + 1):
                assert len(line) <= 100, f"{name(page)}:{number}: {len(line)} characters"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the blocks of a page in order, in one folder and one Python namespace."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in read_blocks(page):
        if block.language == "python":
            _run_python(block, names)
        elif block.language == "console":
            _run_commands(block, folder, capsys)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)


def _run_python(block: Block, names: dict[str, Any]) -> None:
    where = f"{name(block.page)}:{block.line}"
    if ">>>" not in block.text:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.text, where, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(said)


def _run_commands(block: Block, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in read_commands(block):
        parts = [part.strip() for part in command.text.replace("\\\n", " ").split("&&")]
        kept = " && ".join(part for part in parts if not part.startswith(NOT_HERE))
        if not kept:
            continue
        plain = kept.startswith(tuple(OWN)) and not set(kept) & set("|&;<>$*`")
        here = plain and block.page.name != "README.md"
        code, out, err = _called(kept, capsys) if here else _started(kept, folder)
        where = f"{name(block.page)}:{block.line}: {kept}"
        assert code in (0, 2), f"{where}\n{err}"
        assert "Traceback" not in err, f"{where}\n{err}"
        if command.expected.strip():
            printed = out or err  # progress lines on stderr come by the clock
            matched = doctest.OutputChecker().check_output(command.expected + "\n", printed, FLAGS)
            assert matched, f"{where}\nprinted:\n{out}{err}"


OWN = {"python -m lipyomo ": main, "python -m experiments.benchmark ": benchmark}
"""Commands that run in this process, which has imported what they need."""


def _called(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run one of our own commands, and none of the shell, in this process."""
    capsys.readouterr()
    own = next(prefix for prefix in OWN if command.startswith(prefix))
    code = OWN[own](shlex.split(command.removeprefix(own)))
    return code, *capsys.readouterr()


def _started(command: str, folder: Path) -> tuple[int, str, str]:
    """Run a command of the shell."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    return done.returncode, done.stdout, done.stderr


def test_install_commands_are_not_the_only_ones() -> None:
    """The README's first command really runs here, less its installation."""
    first = next(b for b in read_blocks(ROOT / "README.md") if b.language == "console")
    assert "python -m lipyomo" in read_commands(first)[0].text


def test_the_table_of_methods_is_true() -> None:
    """`lipyomo methods --markdown` prints what belongs there."""
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- methods -->\n(.*?)\n?<!-- end of methods -->", text, flags=re.DOTALL)
    assert found is not None
    assert found[1].strip() == markdown(registry.methods()), (
        "docs/methods.md: paste what 'lipyomo methods --markdown' prints between the markers"
    )
