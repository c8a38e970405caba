"""``lipyomo certify`` and ``lipyomo sweep``: data files, row files, resuming, bad input."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from cli_forks import Forks

import lipyomo
from lipyomo.analyses.certification import RobustnessRow, RobustnessVerdict
from lipyomo.cli.certify import _line as certify_line
from lipyomo.cli.main import main
from lipyomo.networks.network import Layer
from networks import random_network


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lipyomo.to_onnx(random_network(0, (3, 6, 3)), tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", inputs=rng.uniform(-1, 1, (8, 3)))
    return tmp_path


CERTIFY = ["certify", "net.onnx", "data.npz", "--radius", "0.05", "--workers", "1", "--quiet"]
SWEEP = ["sweep", "net.onnx", "data.npz", "--radius", "0.05,0.1", "--workers", "1", "--quiet"]
MONOTONE = ["monotone", "net.onnx", "data.npz", "--radius", "0.1", "--workers", "1", "--quiet",
            "--increasing", "0,2", "--decreasing", "1", "--functional", "1,0,-1"]  # fmt: skip


def test_certify_counts_add_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*CERTIFY, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code in (0, 2)
    assert found["summary"]["rows"] == len(found["rows"]) == 8
    assert [row["index"] for row in found["rows"]] == list(range(8))
    for row in found["rows"]:
        if row["verdict"] == "robust":
            assert row["certified_radius"] >= 0.05
        if row["verdict"] == "not robust":
            assert row["adversarial_radius"] <= 0.05
            assert len(row["example"]) == 3


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (CERTIFY, "rows.csv"),
        (CERTIFY, "rows.jsonl"),
        (SWEEP, "rows.jsonl"),
        (MONOTONE, "rows.csv"),
    ],
)
def test_a_second_run_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str
) -> None:
    main([*words, "--rows", name])
    whole = capsys.readouterr().out
    lines = (folder / name).read_text().splitlines(keepends=True)
    kept = [*lines[:3], lines[4], lines[3]]  # an order in which nobody would write them again
    (folder / name).write_text("".join(kept) + lines[5][:9])
    main([*words, "--rows", name])
    again = capsys.readouterr().out
    settled = [line for line in whole.splitlines() if not line.startswith("median  ")]
    assert all(line in again for line in settled)
    found = (folder / name).read_text().splitlines(keepends=True)
    assert found[:5] == kept
    assert len(found) == len(lines)
    assert [line.split(",")[0] for line in found[5:]] == [line.split(",")[0] for line in lines[5:]]


def test_another_run_is_not_mixed_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*CERTIFY, "--rows", "rows.csv", "--plot", "curve.png"])
    assert (folder / "curve.png").stat().st_size > 1000
    other = [word if word != "0.05" else "0.06" for word in CERTIFY]
    assert main([*other, "--rows", "rows.csv"]) == 1
    assert "another run (other radius)" in capsys.readouterr().err


def test_a_killed_sweep_loses_only_rows_in_flight(folder: Path, forks: Forks) -> None:
    np.savez(folder / "data.npz", inputs=np.random.default_rng(1).uniform(-1, 1, (60, 3)))
    words = [*SWEEP, "--rows", "rows.jsonl"]
    child = forks.start(*words)
    for _ in range(60000):
        time.sleep(0.001)
        if (folder / "rows.jsonl").exists() and len(_lines(folder)) > 10:
            break
    child.kill()
    child.wait()
    kept = [json.loads(line) for line in _lines(folder)[1:] if line.endswith("}")]
    assert len(kept) >= 9
    again, whole = forks.run(*words), forks.run(*words[:-1], "whole.jsonl")
    assert again.returncode == whole.returncode == 0
    assert again.stdout == whole.stdout
    rows = [json.loads(line) for line in _lines(folder)[1:]]
    assert rows[: len(kept)] == kept
    fresh = [json.loads(line) for line in _lines(folder, "whole.jsonl")[1:]]
    settled = [{**row, "seconds": 0.0} for row in rows]
    assert settled == [{**row, "seconds": 0.0} for row in fresh]


def _lines(folder: Path, name: str = "rows.jsonl") -> list[str]:
    return (folder / name).read_text().splitlines()


def test_sweep_agrees_with_solve(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SWEEP, "--json", "--output-norm", "l1"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    network = lipyomo.load(folder / "net.onnx")
    data = np.load(folder / "data.npz")["inputs"]
    for row in rows[:4]:
        body = lipyomo.ball(data[row["row"]], row["radius"])
        direct = lipyomo.solve(lipyomo.LipschitzProblem(network, body, output_norm="l1"))
        assert row["upper"] == pytest.approx(direct.upper, rel=1e-6)


@pytest.mark.parametrize("head", [True, False])
def test_csv_with_and_without_a_head(
    folder: Path, capsys: pytest.CaptureFixture[str], head: bool
) -> None:
    network = lipyomo.load(folder / "net.onnx")
    points = np.load(folder / "data.npz")["inputs"]
    labels = network.forward(points).argmax(axis=1)
    lines = [f"{x[0]!s},{x[1]!s},{x[2]!s},{y}" for x, y in zip(points, labels, strict=True)]
    text = "\n".join(["a,b,c,label", *lines] if head else lines)
    (folder / "data.csv").write_text(text + "\n")
    words = [word if word != "data.npz" else "data.csv" for word in CERTIFY]
    main([*words, "--json", *([] if head else ["--label-column", "-1"])])
    found = json.loads(capsys.readouterr().out)["summary"]
    assert found["rows"] == 8
    assert found["misclassified"] == 0


def test_bad_rows_are_named_and_the_good_ones_done(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = np.array([[0.1, 0.2, 0.3], [np.nan, 0, 0], [0.2, 0.1, 0.0], [0.0, 0.5, 0.5]])
    np.savez(folder / "data.npz", inputs=inputs, labels=[0, 0, 9, 1])
    main([*CERTIFY, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["error"] is None for row in rows] == [True, False, False, True]
    main([*SWEEP, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["error"] is None for row in rows] == [True] * 2 + [False] * 2 + [True] * 4


def test_csv_with_semicolons_and_missing_labels(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data.csv").write_text("0.1;0.2;0;1\n0.1;0.2;0;\n0,1;0.2;0;1\n")
    words = [word if word != "data.npz" else "data.csv" for word in CERTIFY]
    main([*words, "--json", "--label-column", "3"])
    errors = [row["error"] or "" for row in json.loads(capsys.readouterr().out)["rows"]]
    assert errors[0] == ""
    assert "label is missing" in errors[1]
    assert "NaN" in errors[2]  # decimal commas are no numbers here


def test_progress_tells_how_many_rows_are_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([word for word in CERTIFY if word != "--quiet"])
    lines = capsys.readouterr().err.splitlines()
    assert "(1 of 8, " in lines[0]
    assert lines[7].endswith("(8 of 8, 0 s left)")


@pytest.mark.parametrize("command", [CERTIFY, SWEEP, MONOTONE])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.npz", None),
        ("empty.csv", b""),
        ("head.csv", b"a,b,c\n"),
        ("torn.npz", b"PK\x03\x04xxxx"),
        ("text.npy", b"hello"),
        ("pickled.npy", "pickle"),
        ("nothing.npz", "nothing"),
        ("short.npz", "short"),
        ("none.npy", "none"),
        ("words.npz", "words"),
        (".", None),
    ],
)
def test_bad_data_is_one_sentence(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    name: str,
    content: bytes | str | None,
) -> None:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "pickle":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif content == "nothing":
        np.savez(path, weights=np.ones(3))
    elif content == "short":
        np.savez(path, inputs=np.ones((4, 3)), labels=np.ones(2))
    elif content == "words":
        np.savez(path, inputs=np.ones((2, 3)), labels=["a", "b"])
    elif content == "none":
        np.save(path, np.zeros((0, 3)))
    assert main([word if word != "data.npz" else name for word in command]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lipyomo: error: ")
    assert "Traceback" not in said
    assert "defect" not in said


@pytest.mark.parametrize(
    "words",
    [
        [*CERTIFY, "--radius", "-1"],
        [*CERTIFY, "--radius", "nan"],
        [*CERTIFY, "--methods", "clever"],
        [*CERTIFY, "--workers", "0"],
        [*CERTIFY, "--first", "0"],
        [*CERTIFY, "--clip", "1,0"],
        [*CERTIFY, "--seed", "-1"],
        [*CERTIFY, "--rows", "rows.xlsx"],
        [*CERTIFY, "--rows", "no/such/rows.csv"],
        [*CERTIFY, "--plot", "no/such/p.png"],
        [*SWEEP, "--radius", "0.1,x"],
        [*SWEEP, "--method", "nope"],
        [*SWEEP, "--time-limit", "0"],
        [*SWEEP, "--metric", "none.npz"],
        [*SWEEP, "--dual-ball", "none.npz"],
        [*SWEEP, "--metric", "metric.npz", "--clip", "0,1"],
        [*CERTIFY, "--dual-ball", "none.npz"],
        [*CERTIFY, "--dual-ball", "flat.npz"],
        [*CERTIFY, "--dual-ball", "metric.npz", "--norm", "l2"],
        [*MONOTONE, "--increasing", "x"],
        [*MONOTONE, "--increasing", "7"],
        [*MONOTONE, "--functional", "1"],
        [*MONOTONE, "--radius", "none.npy"],
        [*MONOTONE, "--plot", "no/such/p.png"],
    ],
)
def test_bad_options_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    np.savez(folder / "metric.npz", vertices=np.eye(3))
    np.savez(folder / "flat.npz", vertices=np.eye(3)[:2])
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("lipyomo: error: ")


def test_a_metric_of_the_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "same.npz", vertices=np.eye(3))  # linf
    for words, option in ((CERTIFY, "--dual-ball"), (SWEEP, "--metric")):
        found = []
        for more in ([], [option, "same.npz"]):
            main([*words, "--json", *more])
            record = json.loads(capsys.readouterr().out)
            rows = record["rows"]
            names = ("certified_radius",) if words is CERTIFY else ("lower", "upper")
            found.append([[row[name] for name in names] for row in rows])
        for plain, metric in zip(*found, strict=True):
            assert metric == pytest.approx(plain, rel=2e-3)


def test_monotone_rows_and_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MONOTONE, "--json", "--plot", "slopes.png", "--rows", "rows.jsonl"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (folder / "slopes.png").stat().st_size > 1000
    assert found["summary"]["rows"] == len(found["rows"]) == 24
    assert main([*MONOTONE, "--json", "--rows", "rows.jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    "words",
    [
        [*SWEEP, "--functional", "1,2"],
        [*SWEEP, "--output-norm", "cross(7)"],
        [*SWEEP, "--option", "nothing=1"],
        [*CERTIFY, "--exact", "--solver", "nothing"],
    ],
)
def test_what_is_wrong_for_every_row_is_one_error(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 1
    told = capsys.readouterr()
    assert not told.out
    assert told.err.startswith("lipyomo: error: ")


@pytest.mark.parametrize("words", [CERTIFY, SWEEP, MONOTONE])
def test_rows_of_another_width_are_one_error(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    np.savez(folder / "data.npz", inputs=np.zeros((3, 2)))
    assert main(words) == 1
    told = capsys.readouterr()
    assert not told.out
    assert "none of the rows could be used" in told.err


def test_the_two_radii_of_a_row_are_different_numbers() -> None:
    row = RobustnessRow(
        index=0,
        verdict=RobustnessVerdict.ROBUST,
        predicted=1,
        certified_radius=0.0077870001,
        adversarial_radius=0.0077870006,
    )
    said = certify_line(row.to_dict())
    inner, outer = re.findall(r"radius (\S+) < (\S+)", said)[0]
    assert float(inner) <= row.certified_radius < row.adversarial_radius <= float(outer)
    assert inner != outer


def test_radii_are_in_units_of_the_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(CERTIFY)
    assert "0.05, in units of the inputs\n" in capsys.readouterr().out
    scaled = lipyomo.Network(
        [Layer(np.diag([0.5, 2.0, 1.0]), np.ones(3)), *random_network(0, (3, 6, 3)).layers]
    )
    lipyomo.to_onnx(scaled, folder / "net.onnx")
    main([*CERTIFY[:3], "--radius", "1/20", *CERTIFY[5:]])
    assert "0.05, in units of the inputs, before the network scales them by 0.5 to 2" in (
        capsys.readouterr().out
    )
