"""The benchmark: its instances fit their networks, its proofs hold, and wrong bounds are found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmark.__main__ import main
from experiments.benchmark.instances import read_estimates, read_instances, read_truth
from experiments.benchmark.tools import guarantee_of

INSTANCES = read_instances()
TRUTH = read_truth()


def test_every_instance_has_a_truth_and_a_name_of_its_own() -> None:
    names = [one.name for one in INSTANCES]
    assert len(set(names)) == len(names) >= 60
    assert set(TRUTH) == set(names)
    assert sum(known.is_exact for known in TRUTH.values()) >= 0.9 * len(names)


@pytest.mark.parametrize("one", INSTANCES, ids=lambda one: one.name)
def test_points_stay_below_the_truth(one) -> None:
    problem = one.problem
    rng = np.random.default_rng(0)
    low, high = np.array(one.lower), np.array(one.upper)
    points = low + rng.random((20, low.size)) * (high - low)
    sampled = max(problem.value_at(x).value for x in points)
    assert sampled <= TRUTH[one.name].upper * (1 + 1e-6)


def test_stored_estimates_are_on_their_side_of_the_truth() -> None:
    estimates = read_estimates()
    assert set(estimates) == set(TRUTH)
    for name, mine in estimates.items():
        for tool, (value, _) in mine.items():
            if value is None:
                continue
            if guarantee_of(tool) == "upper":
                assert value >= TRUTH[name].lower * (1 - 1e-6), (name, tool)
            if guarantee_of(tool) == "lower":
                assert value <= TRUTH[name].upper * (1 + 1e-6), (name, tool)


SMALL = "surrogate_relu_linf_linf_part"


@pytest.mark.parametrize(("share", "code"), [(2.0, 0), (0.5, 1)])
def test_commands_are_tools_and_wrong_bounds_are_named(
    share: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(
        "import sys, numpy as np\n"
        "net, low, high, norm = sys.argv[1:]\n"
        "assert np.all(np.load(low) < np.load(high)) and norm == 'linf'\n"
        f"print('the answer is', {share * TRUTH[SMALL].upper!r})\n"
    )
    out = tmp_path / "answers.json"
    words = f"{sys.executable} {tool} {{network}} {{lower}} {{upper}} {{norm}}"
    assert main(["run", SMALL, "--tool", words, "--out", str(out)]) == code
    (answer,) = json.loads(out.read_text())
    assert answer["share"] == pytest.approx(share)
    assert ("WRONG" in capsys.readouterr().out) == bool(code)


def test_proofs_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", SMALL]) == 0
    assert "1 of 1 proofs hold" in capsys.readouterr().out


def test_names_that_nothing_has_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nothing_like_this"]) == 1
    assert "no instance" in capsys.readouterr().err
