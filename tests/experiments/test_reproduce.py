"""Tables and figures: what they run, how they resume, what their errors are relative to."""

from __future__ import annotations

import csv
import gzip
import json
import math
import struct
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from experiments.papers import NAMES, reproduce
from experiments.papers.cases import Scope
from experiments.papers.experiments import EXPERIMENTS
from experiments.papers.records import Case, Entry, Record, read_records, run_cases
from experiments.papers.sources import models_folder, ones_and_sevens, random_network
from experiments.papers.tables import intervals, summarise
from lipyomo.base.errors import LipyomoError, MissingExtra, ProblemError
from lipyomo.methods import get_method

QUICK = Scope(quick=True)


def _square(seed: int = 0, norm: str = "linf") -> lipyomo.LipschitzProblem:
    network = random_network((2, 6, 6, 2), seed)
    return lipyomo.LipschitzProblem(network, lipyomo.Box(0.0, 1.0, 2), norm, functional=[1.0, -1.0])


def _cases(count: int = 2) -> list[Case]:
    return [Case("square", f"square_{k}", lambda k=k: _square(k)) for k in range(count)]


ENTRIES = [Entry("Exact", "bnb"), Entry("RandomLB", "random_lb", {"samples": 50})]


def _ignore(line: str) -> None:
    """Take a line of progress."""


@pytest.mark.parametrize("name", NAMES)
def test_quick_needs_no_training_and_methods_take_their_cases(name: str) -> None:
    pytest.importorskip("onnxruntime")
    experiment = EXPERIMENTS[name]
    cases = experiment.cases(QUICK)
    assert len({case.name for case in cases}) == len(cases)
    before = "torch" in sys.modules
    for case in cases[:6]:
        problem = case.build()
        for entry in experiment.entries(True):
            if entry.groups and case.group not in entry.groups:
                continue
            method = get_method(entry.method)
            asked = problem
            if entry.spectral:
                asked = lipyomo.LipschitzProblem(
                    problem.network, problem.domain, "l2", problem.output_norm
                )
            assert method.refusal(asked) is None
            assert set(entry.options) <= set(method.options)
    assert ("torch" in sys.modules) is before


@pytest.mark.parametrize("name", NAMES)
def test_printed_numbers_belong_to_rows(name: str) -> None:
    experiment = EXPERIMENTS[name]
    groups = {case.group for case in experiment.cases(QUICK)}
    labels = {entry.label for entry in experiment.entries(True)} | {"Naive, least pair"}
    for printed in (experiment.printed, experiment.times):
        assert set(printed) <= groups
        assert all(set(column) <= labels for column in printed.values())


def test_trials_set_the_number_of_problems() -> None:
    for name, per_trial in (("table1", 2), ("table3", 2), ("table5", 2), ("figure7", 2)):
        cases = EXPERIMENTS[name].cases(Scope(trials=5))
        assert len(cases) == 5 * per_trial
        assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_every_estimator_keeps_its_promise(norm: str, tmp_path: Path) -> None:
    entries = EXPERIMENTS["table1"].entries(True)
    case = Case("square", "square", lambda: _square(3, norm))
    records = run_cases([case], entries, tmp_path / "runs.csv", 30.0, _ignore)
    exact = next(record for record in records if record.label == "Branch and bound")
    assert exact.exact
    for record in records:
        assert record.status != "refused", record.note
        assert record.lower <= exact.upper * (1 + 1e-9), record.label
        assert record.upper >= exact.lower * (1 - 1e-9), record.label


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    runs, lines = tmp_path / "runs.csv", []
    first = run_cases(_cases(1), ENTRIES, runs, 30.0, _ignore)
    again = run_cases(_cases(2), ENTRIES, runs, 30.0, lines.append)
    assert [r.value for r in again[:2]] == [r.value for r in first]
    assert len(again) == 4
    assert len(lines) == 2
    assert all("square_1" in line for line in lines)


@pytest.mark.parametrize("end", ["", "\n"])
def test_half_a_line_is_done_again(end: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    run_cases(_cases(1), ENTRIES, runs, 30.0, _ignore)
    whole = runs.read_text()
    runs.write_text(whole[: whole.rindex("RandomLB") + 12] + end)
    lines: list[str] = []
    assert len(run_cases(_cases(1), ENTRIES, runs, 30.0, lines.append)) == 2
    assert len(lines) == 1
    assert "RandomLB" in lines[0]
    assert [record.label for record in read_records(runs)] == ["Exact", "RandomLB"]


def test_more_time_runs_cut_short_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    run_cases(_cases(1), ENTRIES, runs, 5.0, _ignore)
    rows = list(csv.DictReader(runs.open(newline="")))
    rows[0]["status"] = "time_limit"
    with runs.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines: list[str] = []
    assert run_cases(_cases(1), ENTRIES, runs, 5.0, lines.append)[0].status == "time_limit"
    assert lines == []
    assert run_cases(_cases(1), ENTRIES, runs, 6.0, lines.append)[0].status == "exact"
    assert len(lines) == 1


def test_an_interrupted_run_is_not_kept(tmp_path: Path) -> None:
    runs, asked = tmp_path / "runs.csv", []

    def stop() -> bool:
        asked.append(True)
        return runs.exists()  # after the first record

    with pytest.raises(KeyboardInterrupt):
        run_cases(_cases(2), ENTRIES, runs, 30.0, _ignore, stop)
    kept = read_records(runs)
    assert [record.status for record in kept] == ["exact"]
    lines: list[str] = []
    assert len(run_cases(_cases(2), ENTRIES, runs, 30.0, lines.append)) == 4
    assert len(lines) == 3


def test_a_refusal_is_a_row(tmp_path: Path) -> None:
    network = random_network((2, 4, 1), 0)
    space = lipyomo.LipschitzProblem(network, lipyomo.AllSpace(2))
    case = Case("space", "space", lambda: space)
    (record,) = run_cases([case], [Entry("LipLP", "lp")], tmp_path / "runs.csv", 5.0, _ignore)
    assert record.status == "refused"
    assert "bounded" in record.note
    assert math.isnan(record.value)
    assert "refused" in summarise([record], {}, {})[0]


def test_other_files_are_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text("a,b\n1,2\n")
    with pytest.raises(ProblemError, match="no record"):
        read_records(runs)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{header}a,b,c,x,exact,1,1,1,1,1,1,1,n"])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    header = ",".join(field.name for field in fields(Record)).encode() + b"\n"
    runs = tmp_path / "runs.csv"
    runs.write_bytes(content.replace(b"{header}", header))
    with pytest.raises(ProblemError, match="Remedy"):
        read_records(runs)


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="cannot write"):
        reproduce("table4", quick=True, output_dir=tmp_path / "file")


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_time_limit_is_positive(limit: float, tmp_path: Path) -> None:
    with pytest.raises(LipyomoError, match="time limit"):
        reproduce("table4", quick=True, output_dir=tmp_path, time_limit=limit)


def _record(label: str, value: float, lower: float, upper: float, status: str) -> Record:
    return Record("g", "c", label, 0.0, status, value, lower, upper, 1.0, 0.5, 9.0, math.nan, "")


def test_errors_are_relative_to_the_exact_value() -> None:
    records = [
        _record("exact", 2.0, 2.0, 2.0, "exact"),
        _record("upper", 3.0, 0.0, 3.0, "bounds"),
        _record("lower", 1.0, 1.0, math.inf, "bounds"),
    ]
    errors = {row[1]: row[6] for row in summarise(records, {}, {})}
    assert errors == {"exact": "+0.00%", "upper": "+50.00%", "lower": "-50.00%"}


def test_errors_to_an_interval_are_least_errors_and_marked() -> None:
    records = [
        _record("a", 4.0, 2.0, 4.0, "time_limit"),
        _record("b", 8.0, 0.0, 8.0, "bounds"),
        _record("c", 1.0, 1.0, math.inf, "bounds"),
    ]
    assert intervals(records) == {"c": (2.0, 4.0)}
    errors = {row[1]: row[6] for row in summarise(records, {}, {})}
    assert errors == {"a": "+0.00%*", "b": "+100.00%*", "c": "-50.00%*"}


def test_the_least_pair_gets_its_own_row() -> None:
    naive = replace(_record("Naive", 4.0, 4.0, 4.0, "exact"), least=1.0)
    rows = summarise([naive], {"g": {"Naive, least pair": "0.00%"}}, {})
    assert [(row[1], row[6], row[8]) for row in rows] == [
        ("Naive", "+0.00%", ""),
        ("Naive, least pair", "-75.00%", "0.00%"),
    ]


def test_a_figure_from_start_to_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    report = reproduce("figure7", quick=True, output_dir=tmp_path, trials=1)
    assert [path.exists() for path in report.files] == [True, True, True]
    assert len(report.records) == 2
    assert report.files[-1].read_bytes().startswith(b"\x89PNG")
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert [row["runs"] for row in told["table"]] == ["1", "1"]
    assert told["records"][0]["least"] is None
    wide, narrow = ([r for r in report.records if r.group == g] for g in ("linf", "l1"))
    for big, small in zip(wide, narrow, strict=True):
        assert small.value <= big.value * (1 + 1e-6) <= 10 * small.value * (1 + 1e-5)


def test_without_matplotlib_nothing_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="lipyomo\\[plot\\]"):
        reproduce("figure7", quick=True, output_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_torch_a_full_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    with pytest.raises(MissingExtra, match="lipyomo\\[torch\\]"):
        reproduce("figure5", output_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "trials", "match"), [("table9", None, "table9"), ("table1", 0, "trial")]
)
def test_wrong_requests(name: str, trials: int | None, match: str, tmp_path: Path) -> None:
    with pytest.raises(LipyomoError, match=match):
        reproduce(name, output_dir=tmp_path, trials=trials)


def _idx(path: Path, numbers: np.ndarray) -> None:
    head = struct.pack(f">BBBB{numbers.ndim}I", 0, 0, 8, numbers.ndim, *numbers.shape)
    path.write_bytes(gzip.compress(head + numbers.astype(np.uint8).tobytes()))


def test_mnist_is_read_from_its_files(tmp_path: Path) -> None:
    images = np.zeros((4, 28, 28), dtype=np.uint8)
    images[:, 0, 0] = (255, 51, 0, 102)
    _idx(tmp_path / "t10k-images-idx3-ubyte.gz", images)
    _idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([7, 1, 3, 1]))
    grey, labels, batch = ones_and_sevens(tmp_path)
    assert labels.tolist() == [1, 0, 0]
    assert grey[:, 0] == pytest.approx([1.0, 0.2, 0.4])
    assert batch == 16
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(b"nothing")
    with pytest.raises(ProblemError, match="not a file of MNIST"):
        ones_and_sevens(tmp_path)
    with pytest.raises(ProblemError, match="holds no MNIST"):
        ones_and_sevens(tmp_path / "elsewhere")


def test_shipped_networks_are_found() -> None:
    assert (models_folder() / "leaders100.onnx").exists()
