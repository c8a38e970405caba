"""``--checkpoint``, ``--resume`` and ``--history``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_ran import Ran

Cli = Callable[..., Ran]


def test_a_checkpoint_is_resumed(cli: Cli, net: Path, tmp_path: Path) -> None:
    words = (net, "--box", "0,8", "--margin", "1", "--method", "bnb", "--json")
    path = tmp_path / "state"
    first = cli(*words, "--checkpoint", path)
    assert first.code == 0, first.err
    assert path.exists()
    again = cli(*words, "--checkpoint", path, "--resume")
    assert again.json["lower"] == pytest.approx(first.json["lower"], rel=1e-12)
    assert again.json["upper"] == pytest.approx(first.json["upper"], rel=1e-12)


def test_resuming_needs_a_file(cli: Cli, net: Path) -> None:
    ran = cli(net, "--box", "0,1", "--resume")
    assert ran.code != 0
    assert "--checkpoint FILE" in ran.err


def test_a_checkpoint_that_no_method_writes_is_said(cli: Cli, net: Path, tmp_path: Path) -> None:
    ran = cli(net, "--box", "0,1", "--method", "interval", "--checkpoint", tmp_path / "state")
    assert "checkpoint was not used" in ran.out + ran.err


def test_the_history_is_written_as_csv_and_json(cli: Cli, net: Path, tmp_path: Path) -> None:
    words = (net, "--box", "0,8", "--margin", "1", "--method", "bnb", "--json")
    table, rows = tmp_path / "run.csv", tmp_path / "run.json"
    answer = cli(*words, "--history", table)
    lines = table.read_text().splitlines()
    assert lines[0] == "seconds,lower,upper"
    last = [float(entry) for entry in lines[-1].split(",")]
    assert last[1:] == [answer.json["lower"], answer.json["upper"]]
    assert cli(*words, "--history", rows).code == 0
    assert set(json.loads(rows.read_text())[-1]) == {"seconds", "lower", "upper"}
    assert cli(*words, "--history", tmp_path / "run.txt").code != 0
