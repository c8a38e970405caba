"""What a first day with the command line runs into."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_ran import Ran

from lipyomo.cli.config import expand
from lipyomo.cli.parser import main_parser
from lipyomo.cli.show import laid_out
from lipyomo.cli.variants import NETWORK
from lipyomo.formats.onnx import to_onnx
from lipyomo.methods.registry import methods
from networks import random_network

Cli = Callable[..., Ran]


def test_demo_needs_no_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("demo")
    assert ran.code == 0
    assert "18.8797707" in ran.out
    assert ran.err.startswith("$ lipyomo ")
    assert cli("demo", "--json").json["status"] == "exact"


def test_demo_takes_the_options_of_the_main_job(cli: Cli) -> None:
    for words in (["--ball", "4", "--radius", "1"], ["--box=1,7"], ["--margin", "1"]):
        ran = cli("demo", *words, "--upper-only", "--quiet")
        assert ran.code in (0, 2), ran.err
    assert cli("demo", "--help").out.startswith("usage: lipyomo demo [OPTIONS]")


def test_any_domain_stands_instead_of_the_box_of_the_demo(cli: Cli, tmp_path: Path) -> None:
    query, options = tmp_path / "query.vnnlib", tmp_path / "job.toml"
    bounds = "".join(f"(assert (>= X_{k} 0)) (assert (<= X_{k} 1))\n" for k in range(4))
    names = "".join(f"(declare-const X_{k} Real)\n" for k in range(4))
    query.write_text(names + bounds)
    options.write_text("box = [0, 1]\n")
    for words in (["--vnnlib", query], ["--config", options]):
        ran = cli("demo", *words, "--upper-only", "--json")
        assert ran.json["problem"]["domain"] == "box [0, 1]^4"


def test_the_demo_network_is_the_one_of_the_models(models: Path) -> None:
    assert NETWORK.read_bytes() == (models / "iris.onnx").read_bytes()


def test_info_says_what_a_file_holds(cli: Cli, models: Path) -> None:
    ran = cli("info", models / "mnist_conv.onnx", "--nodes")
    assert ran.code == 0
    for words in ("784-96-48-10", "144 units", "batch x 1 x 28 x 28", "2 Conv"):
        assert words in ran.out
    record = cli("info", models / "iris.onnx", "--json").json
    assert record["network"]["sizes"] == [4, 4, 4, 8, 8, 3]


def test_info_says_why_a_file_is_refused_and_where_to_cut(cli: Cli, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["logits"]),
        onnx.helper.make_node("Hardmax", ["logits"], ["y"]),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [1, 3])], [value("y", 1, None)])
    onnx.save(onnx.helper.make_model(graph, ir_version=8), tmp_path / "s.onnx")
    ran = cli("info", tmp_path / "s.onnx")
    assert ran.code == 1
    assert "--output-node logits" in ran.out
    assert cli("info", tmp_path / "s.onnx", "--output-node", "logits").code == 0


def test_options_from_a_file(cli: Cli, net: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        f'network = "{net.as_posix()}"\nbox = [0, 8]\nmethod = "above"\njson = true\n'
        "[option]\nvalue = 5.5\n"
    )
    assert cli("--config", job).json["upper"] == 5.5
    other = cli("--config", job, "--option", "value=9")
    assert other.json["upper"] == 9.0  # the command line wins


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bax = 1", "did you mean 'box'"),
        ("box = ", "not TOML"),
        ("json = 3", "true or false"),
        ("box = {a = {b = 1}}", "must be"),
    ],
)
def test_wrong_files_of_options(cli: Cli, net: Path, tmp_path: Path, text: str, words: str) -> None:
    job = tmp_path / "job.toml"
    job.write_text(text)
    ran = cli(net, "--config", job)
    assert ran.code == 1
    assert words in ran.err
    assert cli(net, "--config", tmp_path / "none.toml").code == 1
    assert cli(net, "--config").code == 1


def test_lists_and_tables_of_options(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    given = "network = 'a.onnx'\nbox = [0, 8]\nquiet = true\njson = false\n"
    expected = ["--box=0,8", "--quiet", "--option=partition=true", "--option=seed=3", "a.onnx"]
    for options in (
        "option = ['partition=true', 'seed=3']",
        "option = {partition = true, seed = 3}",
    ):
        job.write_text(given + options)
        words = ["--config", str(job)]
        assert expand(main_parser(), words) == [*expected, *words]


@pytest.mark.parametrize("typed", ["comapre", "sovlers", "methds", "verfy"])
def test_mistyped_subcommands(cli: Cli, typed: str) -> None:
    ran = cli(typed, "x")
    assert ran.code == 1
    assert "did you mean 'lipyomo " in ran.err


def test_texts_wrap_between_words() -> None:
    lines = laid_out([("warning", "one two three four five six"), ("x", "y" * 80)], 30, False)
    assert all(len(line) <= 30 for line in lines[:-1])
    assert lines[0].startswith("warning     one two")
    assert "y" * 80 in lines[-1]
    assert "".join(lines).count("\x1b") == 0
    (painted,) = laid_out([("constant", "2")], None, True)
    assert painted == "constant    \x1b[1m2\x1b[0m"


@pytest.mark.usefixtures("compared_here")
def test_compare_fails_if_every_method_does(cli: Cli, net: Path) -> None:
    assert cli("compare", net, "--everywhere", "--methods", "mip,lp", "--quiet").code == 1


def test_compare_keeps_to_its_memory_limit(cli: Cli, net: Path) -> None:
    ran = cli("compare", net, "--box", "0,8", "--methods", "naive", "--memory-limit", "1", "--json")
    assert ran.code == 1
    (row,) = json.loads(ran.out)
    assert row["status"] == "failed"
    assert "memory limit of 1 MB" in row["message"]


def test_a_stopped_exact_method_is_not_shown_as_exact(cli: Cli, models: Path) -> None:
    net = models / "random16_s1.onnx"
    words = ("--box", "0,1", "--methods", "bnb", "--time-limit", "0.3", "--quiet")
    ran = cli("compare", net, *words)
    row = ran.out.splitlines()[2]
    assert row.startswith("bnb ")
    assert "+0.00%" not in row
    assert "at most" in row or "open" in row


def test_a_solver_that_is_not_there_is_no_other_solver(cli: Cli, net: Path, tmp_path: Path) -> None:
    table = tmp_path / "solvers.toml"
    table.write_text('[solver.my]\nbackend = "cbc"\nexecutable = "/no/such/cbc"\n')
    ran = cli(net, "--box", "0,8", "--solvers-file", table, "--solver", "my")
    assert ran.code == 1
    assert "my" in ran.err


def test_the_memory_limit_of_a_job(cli: Cli, net: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lipyomo", net, "--box", "0,8", "--memory-limit", "10"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "memory limit of 10 MB" in done.stderr
    assert cli(net, "--box", "0,8", "--memory-limit", "-5").code == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_narrow_terminal_nothing_is_cut_within_a_word(net: Path) -> None:
    shown = _in_terminal([str(net), "--box", "0,8"], 60)
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line).rstrip() for line in shown.splitlines()]
    kept = [line for line in lines if line.startswith(("check", "warning", "            "))]
    assert kept
    assert all(len(line) <= 60 for line in kept)
    assert any(line.endswith(("random", "points", "output", "norm")) for line in kept)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_tables_and_progress_in_a_terminal(net: Path, tmp_path: Path) -> None:
    table = _in_terminal(["methods"], 80)
    assert all(re.search(rf"^{name} ", table, re.MULTILINE) for name in methods())
    data = tmp_path / "rows.csv"
    data.write_text("5,3,1,0.2\n6,3,4,1\n")
    rows = ["sweep", str(net), str(data), "--radius", "0.01", "--margin-of-label"]
    shown = _in_terminal([*rows, "--workers", "1"], 100)
    assert "2/2" in shown
    assert re.search(r"1  \[.*\]  exact", shown)


def _in_terminal(words: list[str], columns: int) -> str:
    """What the command line prints in a terminal of so many columns."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lipyomo", *words],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "COLUMNS": str(columns), "LINES": "40"},
    )
    os.close(slave)
    said = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 1.0)
        if not ready:
            if process.poll() is not None:
                break
            continue
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    process.wait(timeout=10)
    os.close(master)
    return said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("module", ["argparse", "numpy", "onnxruntime"])
def test_ctrl_c_before_anything_is_known(module: str, models: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "lipyomo", models / "synthetic10.onnx",
         "--box", "0,1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any(line.endswith(f" {module}\n") for line in process.stderr)  # it has come so far
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    # the last of these imports is near the search, which a busy machine may let begin
    begun = module == "onnxruntime" and "status      interrupted" in out
    assert begun or "interrupted before anything was known" in err
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_keeps_what_compare_has(tmp_path: Path) -> None:
    net = tmp_path / "long.onnx"  # its search takes minutes
    to_onnx(random_network(1, (10, 20, 40, 40, 20, 2)), net)
    words = ["compare", net, "--box", "0,1", "--methods", "naive,bnb", "--time-limit", "100"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lipyomo", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("naive"):
            break
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    rows = {row["method"]: row for row in json.loads(out)}
    assert rows["naive"]["value"] > 0
    assert rows["bnb"]["status"] == "interrupted"


def test_completion_knows_options_and_subcommands(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete", reason="needs the extra [completion]")

    def completed(line: str) -> list[str]:
        out = tmp_path / "out"
        subprocess.run(
            [sys.executable, "-m", "lipyomo"],
            env={
                **os.environ,
                "_ARGCOMPLETE": "1",
                "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
                "COMP_LINE": line,
                "COMP_POINT": str(len(line)),
                "_ARGCOMPLETE_IFS": "\n",
            },
            check=False,
            timeout=60,
        )
        return out.read_text().split()

    assert "--time-limit" in completed("lipyomo --tim")
    assert "compare" in completed("lipyomo comp")
    assert "--methods" in completed("lipyomo compare --meth")
