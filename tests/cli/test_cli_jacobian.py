"""``lipyomo jacobian`` from the outside."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo import Box, LipschitzProblem, jacobian_ranges, to_onnx
from networks import random_network

Cli = Callable[..., Ran]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A network with two inputs and two outputs."""
    to_onnx(random_network(0, (2, 5, 2)), tmp_path / "n.onnx")
    return tmp_path / "n.onnx"


def test_the_table_is_that_of_python(cli: Cli, net: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "t.csv", tmp_path / "t.png"
    words = ("jacobian", net, "--box", "-1,1", "--json", "--quiet")
    ran = cli(*words, "--csv", table, "--plot", picture)
    assert ran.code == 0
    found = jacobian_ranges(LipschitzProblem(lipyomo.load(net), Box(-1, 1, 2)))
    assert (ran.json["rows"], ran.json["columns"]) == (["output 0", "output 1"], [0, 1])
    for row, own in zip(ran.json["entries"], found.entries, strict=True):
        for entry, expected in zip(row, own, strict=True):
            assert entry["low"] == pytest.approx(expected.low, rel=1e-6, abs=1e-9)
            assert entry["high"] == pytest.approx(expected.high, rel=1e-6, abs=1e-9)
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["row"], row["input"]) for row in rows] == [
        (name, column) for name in ("output 0", "output 1") for column in "01"
    ]
    assert float(rows[3]["high"]) == pytest.approx(found.entries[1][1].high[0], rel=1e-6)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_table_goes_on_from_its_checkpoint(cli: Cli, net: Path, tmp_path: Path) -> None:
    words = ("jacobian", net, "--box", "-1,1", "--checkpoint", tmp_path / "c", "--json", "--quiet")
    first = cli(*words)
    rest = cli(*words, "--resume")
    assert (first.code, rest.code) == (0, 0)
    assert rest.json["entries"][0][0]["high"] == first.json["entries"][0][0]["high"]
    assert "already" in cli(*words).err
    assert "another functional" in cli(*words, "--entries", "0", "--resume").err


def test_some_entries(cli: Cli, net: Path) -> None:
    ran = cli("jacobian", net, "--box", "-1,1", "--wrt", "1", "--functional", "1,-1", "--quiet")
    assert ran.code == 0
    assert "c.f" in ran.out
    assert "exact" in ran.out
    ran = cli("jacobian", net, "--box", "-1,1", "--entries", "1", "--json", "--quiet")
    assert ran.json["rows"] == ["output 1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--box", "-1,1", "--entries", "2"), "outputs 0 to 1"),
        (("--box", "-1,1", "--functional", "1,2,3"), "3 entries"),
        (("--box", "-1,1", "--functional", "nan,1"), "NaN"),
        (("--box", "-1,1", "--time-limit", "-5"), "time limit -5 must be positive"),
        (("--box", "-1,1", "--wrt", "2"), "input 2"),
        ((), "no domain"),
    ],
)
def test_wrong_words_are_told(cli: Cli, net: Path, words: tuple[str, ...], said: str) -> None:
    ran = cli("jacobian", net, *words)
    assert ran.code == 1
    assert said in ran.err


def test_no_time_leaves_intervals(cli: Cli, tmp_path: Path) -> None:
    to_onnx(random_network(1, (4, 30, 30, 3)), tmp_path / "m.onnx")
    ran = cli("jacobian", tmp_path / "m.onnx", "--box", "-3,3", "--time-limit", "0.5", "--json")
    assert ran.code == 2
    ends = [(entry["low"], entry["high"]) for row in ran.json["entries"] for entry in row]
    assert all(low is None or high is None or low[0] <= high[1] for low, high in ends)
    assert np.isfinite(ran.json["seconds"])


def test_what_is_left_out_of_a_vnnlib_file_is_said(cli: Cli, net: Path, tmp_path: Path) -> None:
    file = tmp_path / "half.vnnlib"
    names = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0"))
    bounds = "(assert (and (<= X_0 1) (>= X_0 0) (<= X_1 1) (<= Y_0 0)))"
    file.write_text(names + bounds)
    ran = cli("jacobian", net, "--vnnlib", file, "--wrt", "0", "--entries", "0", "--quiet")
    assert ran.code == 0
    assert "1 condition of" in ran.err
    assert "unbounded" in ran.err


def test_ends_that_are_not_known_read_alike(cli: Cli, net: Path) -> None:
    out = cli("jacobian", net, "--box", "-1,1", "--time-limit", "1e-9", "--quiet").out
    assert "inf" not in out
    assert "[unknown, " in out
