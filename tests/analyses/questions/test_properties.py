"""Properties of one network and of several, against points of a grid and against exact numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Layer, LipyomoError, Network, PropertyAnswer, Verdict, check_property
from lipyomo.analyses.questions.pairs import rises
from lipyomo.analyses.questions.values import least_value
from lipyomo.problems.result import Point
from lipyomo.problems.settings import Settings
from networks import random_network

ONE = "(declare-network f (declare-input X real [2]) (declare-output Y real [2]))"
TWO = """(declare-network f (declare-input X real [2]) (declare-output Y real [2]))
(declare-network g (RELATION f) (declare-input U real [1, 2]) (declare-output V real [2]))"""
BOX = "(assert (and (>= X[0] -1) (<= X[0] 1) (>= X[1] -1) (<= X[1] 1)))"
SAME = "(assert (== U[0,0] X[0]))(assert (== X[1] U[0,1]))"
LESS = "(assert (and (<= U[0,0] X[0]) (>= U[0,0] -1)))(assert (== U[0,1] X[1]))"
GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 61)] * 2), axis=-1).reshape(-1, 2)


def asked(tmp_path: Path, networks: object, text: str, **more: object) -> PropertyAnswer:
    path = tmp_path / "query.vnnlib"
    path.write_text("(vnnlib-version <2.0>)" + text, encoding="utf-8")
    return check_property(networks, path, time_limit=60, workers=1, **more)


def moved(network: Network, by: float) -> Network:
    """The network with other weights."""
    return Network(
        [Layer(a.weight * (1 + by), a.bias, a.left, a.right, a.curves) for a in network.layers]
    )


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_conjunctions_as_on_a_grid(tmp_path: Path, seed: int, smooth: bool) -> None:
    f = random_network(seed, (2, 5, 2))
    if smooth:
        f = Network.from_arrays([a.weight for a in f.layers], activation="tanh")
    y = f.forward(GRID)
    at = y[np.argsort(y[:, 0])[-20:]]  # the second output where the first one is large
    level = float(at[0, 0])
    for cut in (float(at[:, 1].min()) - 0.05, float(y[:, 1].min()) - 0.5):
        text = f"(assert (> Y[0] {level!r}))(assert (<= (+ Y[1] (* 0.5 X[0])) {cut!r}))"
        found = asked(tmp_path, f, ONE + BOX + text)
        holds = (y[:, 0] > level) & (y[:, 1] + 0.5 * GRID[:, 0] <= cut)
        if holds.any():
            assert found.verdict is Verdict.VIOLATED
        if found.verdict is Verdict.VIOLATED:
            x, values = found.assignment["X"], found.assignment["Y"]
            assert (np.abs(x) <= 1).all()
            assert values == pytest.approx(f.forward(x))
            assert values[0] >= level - 1e-12
            assert values[1] + 0.5 * x[0] <= cut + 1e-12
        else:
            assert found.verdict is Verdict.HOLDS


def test_equivalence_up_to_a_number(tmp_path: Path) -> None:
    f = random_network(0, (2, 4, 3, 2))
    g = moved(f, 0.01)
    farthest = lipyomo.largest_value(
        lipyomo.LipschitzProblem(lipyomo.networks.difference(f, g), lipyomo.Box(-1, 1, 2)),
        workers=1,
    )
    for share, verdict in ((0.999, Verdict.VIOLATED), (1.001, Verdict.HOLDS)):
        eps = share * farthest.lower
        either = [f"(or (> V[{k}] (+ Y[{k}] {eps}))(< V[{k}] (- Y[{k}] {eps})))" for k in (0, 1)]
        text = TWO.replace("RELATION", "isomorphic-to") + BOX + SAME
        found = asked(tmp_path, {"f": f, "g": g}, f"{text}(assert (or {' '.join(either)}))")
        assert found.verdict is verdict
        if found.assignment is not None:
            at = found.assignment
            assert at["U"].shape == (1, 2)
            assert at["U"].reshape(-1).tolist() == at["X"].tolist()
            assert np.abs(at["V"] - at["Y"]).max() >= eps - 1e-12


def test_monotone_pairs(tmp_path: Path) -> None:
    text = TWO.replace("RELATION", "equal-to") + BOX + LESS
    f = random_network(3, (2, 6, 6, 2))
    rising = Network([Layer(np.abs(a.weight), a.bias, a.left, a.right) for a in f.layers])
    smooth = Network.from_arrays([[[3.0, 1.0], [-1.0, 2.0]], [[2.0, 1.0], [1.0, 1.0]]], None, 0.0,
                                 activation="tanh")  # fmt: skip
    for network in (f, rising, smooth):
        values = network.forward(GRID).reshape(61, 61, 2)
        for k in (0, 1):
            row = text + f"(assert (< Y[{k}] V[{k}]))"
            found = asked(tmp_path, {"f": network}, row)
            if (np.diff(values[:, :, k], axis=1) < 0).any():
                assert found.verdict is Verdict.VIOLATED
                at = found.assignment
                assert at["X"][0] > at["U"][0, 0]
                assert at["X"][1] == at["U"][0, 1]
                assert at["Y"][k] < at["V"][k]
            else:
                assert found.verdict is Verdict.HOLDS
    assert rises(rising, np.ones(2), 0)
    assert not rises(rising, -np.ones(2), 0)
    assert asked(tmp_path, {"f": rising}, text + "(assert (<= Y[0] V[0]))").verdict is not (
        Verdict.HOLDS  # where both points are one
    )


@pytest.mark.parametrize("seed", range(3))
def test_both_searches_bound_the_least_value(seed: int) -> None:
    network = random_network(seed, (2, 5, 4, 1))
    box = lipyomo.Box(-1, 1, 2)
    truth = lipyomo.value_range(network, box, workers=1).low
    for boxes in (False, True):
        heard: list[float] = []

        def sample(at: Point, heard: list[float] = heard) -> None:
            heard.append(float(network.forward(at.x)[0]))

        found, _ = least_value(network, box, Settings(workers=1), math.inf, sample, boxes)
        assert found <= truth[1]
        assert found == pytest.approx(truth[0], abs=1e-5)
        assert heard[-1] == pytest.approx(truth[1], abs=1e-5)
        enough, _ = least_value(network, box, Settings(workers=1), truth[0] - 0.1, None, boxes)
        assert truth[0] - 0.1 <= enough <= truth[1]


def test_points_count_exactly(tmp_path: Path) -> None:
    f = Network.from_arrays([[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]])  # |x_0|, 0
    for text, verdict in (
        ("(assert (>= Y[0] 1))", Verdict.VIOLATED),  # at corners alone
        ("(assert (<= Y[0] -1e-5))", Verdict.HOLDS),
        ("(assert (!= Y[1] 0))", Verdict.HOLDS),
        ("(assert (== Y[1] 0))(assert (== X[1] 0.1))", Verdict.VIOLATED),
        ("(assert (> X[0] 0.5))(assert (<= Y[0] 0.5))", Verdict.UNKNOWN),  # the edge is no point
        ("(assert (and (> X[0] 0.5) (< X[0] 0.25)))", Verdict.HOLDS),
        ("(assert (and (> X[0] 0.5) (< X[1] 0.25)))", Verdict.VIOLATED),
        ("(assert (or (<= Y[0] -1) (and (>= Y[0] 0.9) (<= X[0] 0))))", Verdict.VIOLATED),
    ):
        found = asked(tmp_path, f, ONE + BOX + text)
        assert found.verdict is verdict, text
        if "0.9" in text:
            x = found.assignment["X"]
            assert Fraction(float(x[0])) <= -Fraction(0.9)


def test_a_second_judge_is_asked(tmp_path: Path) -> None:
    f = random_network(0, (2, 5, 2))
    level = float(np.quantile(f.forward(GRID)[:, 0], 0.5))
    text = ONE + BOX + f"(assert (>= Y[0] {level!r}))"
    heard: list[float] = []

    def confirm(clause: object, assignment: dict[str, np.ndarray]) -> bool:
        heard.append(float(assignment["Y"][0]))
        return len(heard) > 1

    found = asked(tmp_path, f, text, confirm=confirm)
    assert (found.verdict, found.confirmed) == (Verdict.VIOLATED, True)
    assert heard[1] > heard[0] >= level
    never = asked(tmp_path, f, text, confirm=lambda clause, assignment: False)
    assert (never.verdict, never.confirmed) == (Verdict.VIOLATED, False)


def test_version_one(tmp_path: Path) -> None:
    path = tmp_path / "one.vnnlib"
    path.write_text(
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"
        "(assert (>= Y_0 2.5))"
    )
    network = Network.from_arrays([[[1.0]], [[2.0]]])
    assert check_property(network, path).verdict is Verdict.HOLDS
    assert check_property(moved(network, 0.5), path).assignment["Y"][0] >= 2.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ONE + "(assert (>= X[0] 0))(assert (>= Y[0] 0))", "without a bound"),
        (ONE + BOX + "(assert (>= (* Y[0] Y[1]) 0))", "product of variables"),
        (ONE + BOX + "(assert (>= (* 0.1 0.1 Y[1]) 0))", "no float64 number"),
        (ONE.replace("X real [2]", "X real [3]"), "declares 3 inputs"),
        (ONE.replace("Y real [2]", "Y real [1]"), "declares 1 outputs"),
        (
            ONE.replace("(declare-output", '(declare-hidden H real [2] "h")(declare-output'),
            "hidden",
        ),
        (TWO.replace("RELATION", "isomorphic-to") + BOX + SAME, "one was given"),
        (TWO.replace("RELATION", "like") + BOX + SAME, "no tensor of a network"),
        (TWO.replace("g (RELATION f)", "g (equal-to g)"), "no network 'g'"),
        (ONE + BOX + "(assert (>= X[0] 1e999))", "too large"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(LipyomoError, match=words):
        asked(tmp_path, random_network(0, (2, 4, 2)), text)


def test_networks_by_wrong_names(tmp_path: Path) -> None:
    text, f = TWO.replace("RELATION", "isomorphic-to") + BOX + SAME, random_network(0, (2, 4, 2))
    with pytest.raises(LipyomoError, match="'g', and none was given"):
        asked(tmp_path, {"f": f}, text)
    with pytest.raises(LipyomoError, match="no network 'h'"):
        asked(tmp_path, {"f": f, "g": f, "h": f}, text)


def test_searches_go_on_from_their_checkpoint(tmp_path: Path) -> None:
    f = random_network(1, (2, 8, 8, 2))
    highest = lipyomo.value_range(f, lipyomo.Box(-1.0, 1.0, 2), [1, 0]).high
    query, file = tmp_path / "query.vnnlib", tmp_path / "state"

    def checked(level: float, **more: object) -> PropertyAnswer:
        either = f"(assert (or (> Y[0] {level!r}) (and (> Y[0] {level!r}) (> Y[1] 0))))"
        query.write_text("(vnnlib-version <2.0>)" + ONE + BOX + either, encoding="utf-8")
        return check_property(f, query, workers=1, checkpoint=file, **more)

    above = highest[1] + 0.01
    assert checked(above, time_limit=1e-3).verdict is Verdict.UNKNOWN
    found = checked(above, time_limit=60, resume=True)
    assert (found.verdict, found.unwritten) == (Verdict.HOLDS, "")
    again = checked(above, time_limit=60, resume=True)
    assert (again.verdict, again.nodes) == (found.verdict, found.nodes)
    with pytest.raises(LipyomoError, match="another query"):
        checked(above + 1.0, resume=True)
    with pytest.raises(LipyomoError, match="already"):
        checked(above)
    below = checked(highest[0] - 1e-3, time_limit=60, overwrite=True)
    assert below.verdict is Verdict.VIOLATED
