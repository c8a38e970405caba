"""The command line as a process: Ctrl-C, pipes, defects, start-up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_forks import Forked

Start = Callable[..., Forked]


def _wait_for(process: Forked, word: str, seconds: float = 60.0) -> str:
    """Read lines of stderr until one holds `word`."""
    assert process.stderr is not None
    until = time.monotonic() + seconds
    seen = ""
    while time.monotonic() < until:
        line = process.stderr.readline()
        seen += line
        if word in line:
            return seen
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"'{word}' did not come; there was: {seen}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_interrupt_prints_the_interval_and_exits_2(
    number: signal.Signals, start: Start, net: Path
) -> None:
    process = start(net, "--box", "0,1", "--method", "patient", "--json")
    _wait_for(process, "lower")  # the first periodic line
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    record = json.loads(out)
    assert record["status"] == "interrupted"
    assert 1 < record["lower"] <= 2 <= record["upper"] < 3
    assert "Traceback" not in err


def test_one_interrupt_is_enough_for_a_difference(start: Start, models: Path) -> None:
    """The largest value of these two would take minutes."""
    pair = (models / "random16_s0.onnx", models / "random16_s1.onnx")
    process = start("difference", *pair, "--box", "-3,3", "--method", "patient", "--json")
    _wait_for(process, "lower")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    found = json.loads(out)["details"]["largest_value"]
    assert found["status"] == "interrupted"
    assert found["lower"] <= found["upper"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_rows_that_are_done_are_shown(
    number: signal.Signals, start: Start, net: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("1,2,3,4\n" * 100)
    words = ("sweep", net, tmp_path / "rows.csv", "--radius", "0.1", "--method", "patient")
    file = tmp_path / "found.jsonl"
    process = start(*words, "--time-limit", "0.5", "--workers", "1", "--json", "--rows", file)
    _wait_for(process, "1 of 100")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    rows = json.loads(out)["rows"]
    assert 1 <= len(rows) < 100
    assert {row["status"] for row in rows} == {"time_limit"}, "what was cut short is done again"
    assert len(file.read_text().splitlines()) == 1 + len(rows)
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_anything_is_known_both_signals_leave_with_a_word(number: signal.Signals) -> None:
    code = f"""
import signal
from lipyomo.cli.interrupt import Leaving
with Leaving():
    signal.raise_signal({int(number)})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "lipyomo: interrupted before anything was known\n"


def test_second_interrupt_leaves_at_once_with_the_last_interval(start: Start, net: Path) -> None:
    process = start(net, "--box", "0,1", "--method", "deaf")
    _wait_for(process, "lower")
    process.send_signal(signal.SIGINT)
    _wait_for(process, "Ctrl-C again")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 2
    assert "at most 2.5" in out
    assert "interrupted" in out
    assert "Traceback" not in err


def test_unforeseen_exceptions_are_called_defects(start: Start, net: Path) -> None:
    process = start(net, "--box", "0,1", "--method", "broken")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert "defect" in err
    assert "--debug" in err
    assert "Traceback" not in err
    process = start(net, "--box", "0,1", "--method", "broken", "--debug")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" in err
    assert "ZeroDivisionError" in err


@pytest.mark.parametrize(
    ("redirection", "code", "out", "err"),
    [
        ("| true", 1, "", ""),
        (">&-", 0, "", ""),
        ("2>&-", 0, "interval", ""),
        ("<&-", 0, "interval", ""),
        ("> /dev/full", 1, "", "no space left"),
    ],
)
def test_streams_that_are_closed_or_full(
    net: Path, redirection: str, code: int, out: str, err: str
) -> None:
    command = f"{sys.executable} -m lipyomo {net} --box 0,1 --method naive --quiet"
    if "true" in redirection:  # a reader that has left before the answer comes
        command = f"(sleep 0.3; exec {command})"
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("there is no device that is always full")
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} {redirection}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert out in done.stdout
    assert err in done.stderr
    assert "defect" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_help_imports_nothing_heavy() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "lipyomo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "--box" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"onnx", "onnxruntime", "scipy", "pyomo", "highspy", "cvxpy", "flint"}


def test_no_terminal_no_control_characters(start: Start, net: Path) -> None:
    process = start(net, "--box", "0,1", "--method", "patient", "--gap", "5%")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "interval" in out
    assert "\x1b" not in out + err
