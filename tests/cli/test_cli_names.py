"""One name for one thing: help on one screen, old names that still work, files of options."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

from lipyomo.cli.main import SUBCOMMANDS
from lipyomo.cli.parser import main_parser
from lipyomo.cli.words import RENAMED

Cli = Callable[..., Ran]
BOX = ("--box", "0,1")


def test_help_is_one_screen_and_names_what_there_is(cli: Cli) -> None:
    lines = cli("--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    known = {word for action in main_parser()._actions for word in action.option_strings}
    assert set(re.findall(r"--[a-z][a-z-]+", "\n".join(lines))) <= known | {"--proof"}
    commands = "\n".join(lines).split("commands:")[1].split("exit codes")[0]
    assert set(re.findall(r"^  (\w+) ", commands, re.MULTILINE)) == set(SUBCOMMANDS)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_every_command_is_one_screen(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli(name, "--help").out.splitlines()
    assert lines[0].startswith(f"usage: lipyomo {name}")
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 85
    assert set(cli(name, "--help-all").out.split()) >= {"--debug", "--help-all"}


def test_all_options_are_a_word_away(cli: Cli) -> None:
    said = cli("--help-all").out
    for action in main_parser()._actions:
        assert all(word in said for word in action.option_strings)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("net.onnx", "--nrom", "l1"), "did you mean --norm?"),
        (("net.onnx", "--time", "5"), "did you mean --time-limit?"),
        (("certify", "net.onnx", "rows.csv", "--raduis", "1", "--radius", "1"), "mean --radius?"),
        (("net.onnx", "--box"), "--box LO,HI: numbers"),
        (("net.onnx", "--norm"), "--norm linf|l1|l2"),
        (("sweep", "net.onnx"), "lipyomo sweep NET DATA --radius R,... [OPTIONS]"),
        (("difference", "net.onnx"), "lipyomo difference A B [OPTIONS]"),
        (("range", "net.onnx", "--wrt", "0"), "see lipyomo range --help"),
    ],
)
def test_slips_get_a_remedy(cli: Cli, words: tuple[str, ...], remedy: str) -> None:
    ran = cli(*words)
    assert ran.code == 1
    assert remedy in ran.err.split("Remedy: ")[1]


@pytest.mark.parametrize("command", ["certify", "sweep", "map", "difference", "jacobian", "range"])
def test_files_of_options_are_for_every_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text('norma = "l1"\n')
    ran = cli(command, "--config", "job.toml")
    assert ran.code == 1
    assert "there is no option 'norma'" in ran.err


@pytest.mark.parametrize(
    ("words", "old"),
    [
        (("NET", *BOX, "--no-check"), "--no-check"),
        (("NET", *BOX, "--output=output"), "--output"),
        (("info", "NET", "--output", "output"), "--output"),
        (("sweep", "NET", "rows.csv", "--radius", "0.1", "--output", "output"), "--output"),
    ],
)
def test_old_names_still_work_with_a_warning(
    cli: Cli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], old: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.savetxt("rows.csv", np.full((2, 4), 0.5), delimiter=",")
    ran = cli(*(str(net) if word == "NET" else word for word in words))
    assert ran.code == 0, ran.err
    assert ran.err.count(f"{old} is now {RENAMED[old]}") == 1
    new = [word.replace(old, RENAMED[old]) if word.startswith(old) else word for word in words]
    assert "is now" not in cli(*(str(net) if word == "NET" else word for word in new)).err


def test_commands_on_rows_take_files_of_options(
    cli: Cli, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("rows.csv", np.full((2, 4), 0.5), delimiter=",")
    Path("job.toml").write_text(f'network = "{net}"\ndata = "rows.csv"\nradius = 0.1\nfirst = 1\n')
    for command in ("certify", "sweep"):
        ran = cli(command, "--config", "job.toml")
        assert re.search(r"^rows +1$", ran.out, re.MULTILINE), ran.err
        assert re.search(
            r"^rows +2$", cli(command, "--config", "job.toml", "--first", "2").out, re.M
        )
    Path("job.toml").write_text("no-check = true\n")
    assert "--no-check is now --trust-solver" in cli(str(net), *BOX, "--config", "job.toml").err
