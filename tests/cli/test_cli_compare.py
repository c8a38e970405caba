"""``lipyomo compare``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_ran import Ran

Cli = Callable[..., Ran]


def test_rows_bound_each_other(cli: Cli, net: Path) -> None:
    ran = cli("compare", net, "--box", "0,8", "--methods", "naive,bnb,random_lb", "--json")
    assert ran.code == 0, ran.err
    rows = {row["method"]: row for row in json.loads(ran.out)}
    assert set(rows) == {"naive", "bnb", "random_lb"}
    assert rows["bnb"]["status"] == "exact"
    exact = rows["bnb"]["value"]
    assert rows["random_lb"]["value"] <= exact <= rows["naive"]["value"]
    assert rows["bnb"]["error"] == 0
    assert rows["naive"]["error"] == pytest.approx(rows["naive"]["value"] / exact - 1)
    assert len(ran.err.splitlines()) == 1 + 3  # a header, and one line a method, as it finished


@pytest.mark.usefixtures("compared_here")
def test_networks_side_by_side_as_text_csv_and_picture(
    cli: Cli, models: Path, tmp_path: Path
) -> None:
    nets = (models / "random10_s0.onnx", models / "random10_s1.onnx")
    options = ("--box", "0,1", "--methods", "naive,fastlip", "--quiet")
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    picture = tmp_path / "compare.png"
    text = cli("compare", *nets, *options, "--plot", picture)
    assert text.code == 0, text.err
    assert text.err == ""
    assert "random10_s0" in text.out
    assert "random10_s1" in text.out
    assert text.out.count("fastlip") == 2
    lines = io.StringIO(cli("compare", *nets, *options, "--methods", "naive", "--csv").out)
    assert [row["network"] for row in csv.DictReader(lines)] == ["random10_s0", "random10_s1"]
    assert picture.stat().st_size > 1000


@pytest.mark.usefixtures("compared_here")
def test_a_method_that_refuses_harms_nothing(cli: Cli, net: Path) -> None:
    ran = cli("compare", net, "--everywhere", "--methods", "mip,naive", "--json", "--quiet")
    assert ran.code == 0, ran.err
    rows = {row["method"]: row for row in json.loads(ran.out)}
    assert rows["mip"]["status"] == "refused"
    assert "bounded" in rows["mip"]["message"]
    assert rows["naive"]["value"] > 0


@pytest.mark.usefixtures("compared_here")
def test_options_of_single_methods(cli: Cli, net: Path) -> None:
    options = ("--box", "0,8", "--methods", "random_lb", "--json", "--quiet")
    few = cli("compare", net, *options, "--option", "random_lb.samples=1")
    many = cli("compare", net, *options, "--option", "random_lb.samples=5000")
    assert json.loads(few.out)[0]["value"] <= json.loads(many.out)[0]["value"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["no domain"]),
        (["--box", "1,0"], ["box is empty"]),
        (["--box", "0,1", "--methods", "magic"], ["unknown method 'magic'"]),
        (["--box", "0,1", "--methods", ","], ["no method"]),
        (["--box", "0,1", "--jobs", "0"], ["--jobs"]),
        (["--box", "0,1", "--memory-limit", "0"], ["--memory-limit"]),
        (["--box", "0,1", "--time-limit", "0"], ["time limit"]),
        (["--box", "0,1", "--option", "x=1"], ["METHOD.NAME=VALUE"]),
        (["--box", "0,1", "--option", "magic.x=1"], ["unknown method 'magic'"]),
        (["--box", "0,1", "--option", "naive.x=1"], ["naive", "no such option"]),
        (["--box", "0,1", "--methods", "lp", "--option", "random_lb.samples=1"], ["not compared"]),
        (["--box", "0,1", "--plot", "no/such/folder/a.png"], ["no/such/folder"]),
        (["--box", "0,1", "--json", "--csv"], ["not allowed with"]),
    ],
    ids=" ".join,
)
def test_wrong_options(cli: Cli, net: Path, options: list[str], words: list[str]) -> None:
    ran = cli("compare", net, *options)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("lipyomo: error: ")
    for word in words:
        assert word in ran.err


def test_a_missing_network(cli: Cli) -> None:
    ran = cli("compare", "none.onnx", "--box", "0,1")
    assert ran.code == 1
    assert "none.onnx" in ran.err
