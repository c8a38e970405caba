"""What a user can get wrong ends in a sentence that says what, where and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo.cli.main import main
from networks import random_network

Cli = Callable[..., Ran]
LONG = "a" * 5000


@pytest.mark.parametrize(
    "words",
    [
        (LONG, "--box", "0,1"),
        (LONG + ".onnx", "--box", "0,1"),
        ("info", LONG),
        ("verify", LONG, "NET"),
        ("certify", "NET", LONG + ".csv", "--radius", "1"),
        ("NET", "--ball", LONG + ".npy", "--radius", "1"),
        ("NET", "--polytope", LONG),
        ("NET", "--box", "0,1", "--solver", "highs", "--solvers-file", LONG),
        ("NET", "--box", "0,1", "--config", LONG),
        ("compare", LONG, "--box", "0,1"),
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_a_name_of_5000_letters_is_an_error(cli: Cli, net: Path, words: tuple[str, ...]) -> None:
    ran = cli(*(net if word == "NET" else word for word in words))
    assert ran.code == 1
    assert "unexpected" not in ran.err
    assert "long" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("", "--box", "0,1"),
        ("certify", "NET", "", "--radius", "1"),
        ("verify", "", "NET"),
        ("compare", "", "--box", "0,1"),
        ("NET", "--box", "0,1", "--solver", "highs", "--solvers-file", ""),
    ],
)
def test_an_empty_path_is_called_empty(cli: Cli, net: Path, words: tuple[str, ...]) -> None:
    ran = cli(*(net if word == "NET" else word for word in words))
    assert ran.code == 1
    assert "the path is empty" in ran.err


SEVERAL = """
import sys
from lipyomo.cli.main import main
words = sys.argv[1:]
while words:
    end = words.index("then")
    print("ended with", main(words[:end]), flush=True)
    words = words[end + 1:]
"""


@pytest.mark.parametrize("encoding", ["ascii:strict", "ascii:surrogateescape"])
def test_names_that_the_locale_does_not_know(tmp_path: Path, net: Path, encoding: str) -> None:
    """Several commands in one process: most of a process's time goes into imports."""
    named, folder = "n\u00e4tz\u4e16.onnx", tmp_path / "r\u00e9seau"
    folder.mkdir()
    shutil.copy(net, tmp_path / named)
    files = [folder / name for name in ("\u00fc.proof", "\u00e9tat", "h\u00e4.csv", "\u00fc.png")]
    options = ("--proof", "--checkpoint", "--history", "--plot")
    commands = [[named, "--box", "0,1"]]
    for pair in zip(options, files, strict=True):
        commands[0] += map(str, pair)
    commands.append(["compare", named, "--box", "0,1", "--methods", "naive"])
    commands.append(["n\u00f6t.onnx", "--box", "0,1"])
    words = [word for command in commands for word in (*command, "then")]
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", SEVERAL, *words],
        cwd=tmp_path,
        env={**os.environ, **plain, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=120.0,
    )
    assert ran.stdout.count(b"constant") > 0
    assert ran.stdout.count(b"ended with 0") == 2, ran.stderr
    assert ran.stdout.count(b"ended with 1") == 1
    assert b"there is no file" in ran.stderr
    assert all(file.stat().st_size > 0 for file in files)


def test_a_file_of_options_names_no_other(cli: Cli, net: Path, tmp_path: Path) -> None:
    place = tmp_path / "a.toml"
    place.write_text('config = "b.toml"\n')
    ran = cli(net, "--box", "0,1", "--config", place)
    assert ran.code == 1
    assert "did you mean" not in ran.err
    assert "another" in ran.err


@pytest.mark.parametrize(
    "text",
    [
        "0,5;0,25;1;2\n",
        "a;b;c;d\n1;2;3;4,25\n1;2;3,5;4\n",
        "1\t2\t3,5\t4\n",
        '"0,5","0,25","1","2"\n',
        "1;2;3;-,5e3\n",
    ],
)
def test_decimal_commas_are_named(cli: Cli, net: Path, tmp_path: Path, text: str) -> None:
    place = tmp_path / "data.csv"
    place.write_text(text)
    ran = cli("certify", net, place, "--radius", "0.1")
    assert ran.code == 1
    assert "decimal comma" in ran.err
    assert str(place) in ran.err


def test_labels_of_a_sweep_are_those_that_margin_takes(cli: Cli, net: Path, tmp_path: Path) -> None:
    place = tmp_path / "data.npz"
    np.savez(place, inputs=np.full((1, 4), 0.5), labels=np.array([1.0]))
    words = ("--radius", "0.1", "--margin-of-label", "--workers", "1", "--json", "--quiet")
    ran = cli("sweep", net, place, *words)
    (row,) = ran.json["rows"]
    assert cli(net, "--box", "0,1", "--margin", json.dumps(row["label"])).code == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: lipyomo.Network.from_arrays([[[10**400]]]),
        lambda: lipyomo.Box([10**400], 1, 1),
        lambda: lipyomo.Settings(time_limit=10**400),
        lambda: lipyomo.Network.from_arrays([[[1.0]], [[1.0]]], slope=-(10**400)),
    ],
)
def test_numbers_too_large_for_floating_point(call: Callable[[], object]) -> None:
    with pytest.raises(lipyomo.LipyomoError):
        call()


@pytest.mark.parametrize(
    "words",
    [
        ["--ball", "4", "--radius", "8/255", "--ball-norm", "2", "--norm", "L2"],
        ["--ball", "4", "--radius", "8/255", "--ball-norm", "l_2", "--norm", "2"],
        ["--config", "options.toml"],
    ],
)
def test_numbers_times_and_norms_as_people_write_them(words, tmp_path, monkeypatch, capsys):
    lipyomo.to_onnx(random_network(0, (3, 6, 1)), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    options = 'ball = 4\nradius = "8/255"\nball-norm = 2\nnorm = "L2"\n'
    Path("options.toml").write_text(options, encoding="utf-8")
    assert main(["net.onnx", *words, "--time-limit", "1m", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ball = lipyomo.ball([4.0] * 3, 8 / 255, "l2")
    problem = lipyomo.LipschitzProblem(random_network(0, (3, 6, 1)), ball, "l2")
    assert found["upper"] == pytest.approx(lipyomo.solve(problem).upper, rel=1e-5)


def test_an_unbounded_domain_is_told_before_the_search(tmp_path, monkeypatch, capsys):
    lipyomo.to_onnx(random_network(0, (2, 3, 1)), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    main(["net.onnx", "--box=-inf,inf"])
    shown = capsys.readouterr()
    assert "all of R^2" in shown.out
    assert "the domain is unbounded" in shown.err
    assert "--time-limit" in shown.err
    main(["net.onnx", "--box=0,1", "--quiet"])
    assert "unbounded" not in capsys.readouterr().err
