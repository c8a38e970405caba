"""``lipyomo range`` from the outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

import lipyomo
from lipyomo import Box, to_onnx, value_range
from networks import random_network

Cli = Callable[..., Ran]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A network with three inputs and two outputs."""
    to_onnx(random_network(0, (3, 6, 2)), tmp_path / "n.onnx")
    return tmp_path / "n.onnx"


def test_all_outputs_as_in_python(cli: Cli, net: Path) -> None:
    ran = cli("range", net, "--box", "-1,1", "--json", "--quiet")
    assert ran.code == 0
    rows = ran.json["ranges"]
    assert [row["row"] for row in rows] == ["output 0", "output 1"]
    for row, c in zip(rows, np.eye(2), strict=True):
        found = value_range(lipyomo.load(net), Box(-1, 1, 3), c)
        assert row["status"] == "exact"
        assert row["high"] == pytest.approx(found.high, rel=1e-6)
        assert row["low"] == pytest.approx(found.low, rel=1e-6)


def test_some_outputs_and_functionals(cli: Cli, net: Path) -> None:
    words = ("range", net, "--ball", "0", "--radius", "1", "--ball-norm", "l2", "--quiet")
    ran = cli(*words, "--entries", "1")
    assert ran.code == 0
    assert "output 1" in ran.out
    assert "output 0" not in ran.out
    difference = cli(*words, "--functional", "1,-1", "--json").json["ranges"]
    assert len(difference) == 1
    assert difference[0]["high"][0] <= difference[0]["high"][1]


def test_a_proof_has_all_rows(cli: Cli, net: Path, tmp_path: Path) -> None:
    proof = tmp_path / "range.proof"
    ran = cli("range", net, "--box", "-1,1", "--proof", proof)
    assert (ran.code, "proof of both ends" in ran.err) == (0, True)
    checked = cli("verify", proof, net, "--quiet")
    assert checked.code == 0
    assert "weight by weight" in checked.out
    assert checked.out.count("least value of c . f") == 2
    cut = cli("range", net, "--box", "-1,1", "--proof", proof, "--time-limit", "1e-3")
    assert cut.code == 2
    assert cli("verify", proof, net).code in (0, 2)  # the one before, or what was attained


def test_no_time_leaves_intervals_and_says_so(cli: Cli, tmp_path: Path) -> None:
    to_onnx(random_network(0, (12, 40, 40, 40, 1)), tmp_path / "n.onnx")
    ran = cli("range", tmp_path / "n.onnx", "--box", "-1,1", "--time-limit", "0.5", "--json")
    row = ran.json["ranges"][0]
    assert ran.code == 2
    assert row["status"] == "time_limit"


def test_a_range_goes_on_from_its_checkpoint(cli: Cli, net: Path, tmp_path: Path) -> None:
    words = ("range", net, "--box", "-1,1", "--checkpoint", tmp_path / "c", "--json", "--quiet")
    first = cli(*words, "--time-limit", "1e-3")
    assert (first.code, (tmp_path / "c").exists()) == (2, True)
    rest = cli(*words, "--resume")
    assert (rest.code, [row["status"] for row in rest.json["ranges"]]) == (0, ["exact", "exact"])
    assert "already" in cli(*words).err
    assert "another row" in cli(*words, "--entries", "0", "--resume").err
    assert "from where" in cli("range", net, "--box", "-1,1", "--resume").err


def test_wrong_words_are_one_sentence(cli: Cli, net: Path) -> None:
    assert "outputs 0 to 1" in cli("range", net, "--box", "0,1", "--entries", "5").err
    offered = cli("range", net).err
    assert "no domain" in offered
    assert "--everywhere" not in offered  # which values of a network have no range on
    assert "c" in cli("range", net, "--box", "0,1", "--functional", "1,2,3").err


@pytest.mark.parametrize("command", ["range", "jacobian"])
def test_the_memory_limit_binds(cli: Cli, net: Path, command: str) -> None:
    ran = cli(command, net, "--box", "-1,1", "--memory-limit", "1")
    assert ran.code == 1
    assert "memory" in ran.err


def test_a_dask_cluster_answers_the_same(cli: Cli, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    to_onnx(random_network(1, (10, 16, 16, 2)), tmp_path / "n.onnx")
    words = ("range", tmp_path / "n.onnx", "--box", "-1,1", "--entries", "1", "--json", "--quiet")
    here = cli(*words, "--workers", "1").json["ranges"][0]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = cli(*words, "--dask", cluster.scheduler_address).json["ranges"][0]
    for end in ("low", "high"):
        assert there[end] == pytest.approx(here[end], rel=1e-6)


def test_a_cluster_that_is_not_there_is_noticed_before_any_search(cli: Cli, net: Path) -> None:
    for command, address in (
        ("range", "tcp://127.0.0.1:1"),
        ("jacobian", "tcp://127.0.0.1:1"),
        ("compare", "tcp://no..name:1"),  # an error of its own kind
    ):
        ran = cli(command, net, "--box", "-1,1", "--dask", address)
        assert (ran.code, ran.out) == (1, "")
        assert f"no dask scheduler answers at '{address}'" in ran.err
