"""Sums of squares in proofs: what they are at least on boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flint import ctx

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.activations import Power
from lipyomo.networks.network import Curve, Layer
from lipyomo.proofs import network_digest
from lipyomo.proofs.writing import statement_of
from lipyomo_check import check_proof
from lipyomo_check.parts import BITS
from lipyomo_check.smooth import squares
from lipyomo_check.smooth.balls import NOTHING, in_balls, plain
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.factors import Form
from lipyomo_check.smooth.kind import Kind
from lipyomo_check.smooth.levels import Group, hidden_of
from lipyomo_check.smooth.lines import Samples
from lipyomo_check.smooth.powers import UNBOUNDED
from lipyomo_check.smooth.squares import convex, least
from lipyomo_check.smooth.strict import ChainInBalls, boxes_in_balls, defined
from lipyomo_check.smooth.whole import Sum
from tests.proofs.test_joint_proofs import (
    boxes_of,
    normalised,
    question_of,
    rejects_less,
    written,
)

GAMMA = 1e-13


def drawn(rng: np.random.Generator) -> tuple[Form, Sum, np.ndarray, np.ndarray]:
    """Affine functions of a few entries, some constant, equal, or known exactly; a row of them."""
    N, J, d = 4, int(rng.integers(3, 8)), int(rng.integers(1, 5))
    turn = rng.standard_normal((N, J, d)) * rng.choice([0.0, 0.1, 1.0, 10.0], (N, J, 1))
    offset = rng.standard_normal((N, J)) * rng.choice([0.0, 1.0, 5.0])
    away = np.abs(rng.standard_normal((N, J))) * rng.choice([0.0, 0.0, 0.1, 1.0])
    turn[:, 1], offset[:, 1] = turn[:, 0], offset[:, 0]
    size = np.abs(offset) + np.abs(turn).sum(axis=2) + away
    form = Form(turn, offset, away, size, np.zeros((N, J)), size)
    own = Sum(0, np.arange(J), np.zeros(0, dtype=np.int64))
    return form, own, rng.uniform(0.1, 2.0, (1, J)), rng.choice([0.0, 0.01, -1.0], 1)


@pytest.mark.parametrize("seed", range(40))
def test_sums_are_no_less_and_about_as_small(seed: int) -> None:
    """Points of the cube; and the least of these is near if signals are known exactly."""
    rng = np.random.default_rng(seed)
    form, own, weight, bias = drawn(rng)
    found = least(form, own, weight, bias, GAMMA)
    delta = rng.uniform(-1.0, 1.0, (form.turn.shape[2], 5000))
    delta[:, :1000] = np.sign(delta[:, :1000])
    y = np.abs(form.offset[:, :, None] + form.turn @ delta) - form.away[:, :, None]
    values = bias[0] + (weight[0][:, None] * np.maximum(y, 0.0) ** 2).sum(axis=1)
    assert (found[:, None] <= values).all()
    if not form.away.any():  # two sweeps are not all, and points are few
        spread = values.max(axis=1) - values.min(axis=1)
        assert (values.min(axis=1) - found <= 1e-9 + 0.3 * spread).all()


@pytest.mark.parametrize("seed", range(10))
def test_arb_gives_the_same(seed: int) -> None:
    form, own, weight, bias = drawn(np.random.default_rng(seed))
    found = least(form, own, weight, bias, GAMMA)
    with ctx.workprec(BITS):
        exact = least(Form(*map(in_balls, form)), own, in_balls(weight), in_balls(bias), NOTHING)
        assert (exact >= found).all()
    for n, value in enumerate(found.tolist()):
        size = float((weight[0] * form.size[n] ** 2).sum()) + 1.0
        assert float(exact[n]) == pytest.approx(value, abs=1e-11 * size)


def kind_in_arb(name: str) -> Kind:
    """A kind by its definition."""
    kind = UNBOUNDED[name]
    group = Group(np.zeros(1, dtype=np.int64), kind)
    return defined(group, [Unit(kind, name, 1.0, 1.0)]).kind


@pytest.mark.parametrize("name", ["rsqrt", "reciprocal", "log", "square"])
def test_both_arithmetics_choose_the_same_lines(name: str) -> None:
    """Of narrow ranges near zero, too, where chords count that would be too narrow elsewhere."""
    kind, exact = UNBOUNDED[name], kind_in_arb(name)
    for low in (1e-3, 0.2, 3.0):
        for width in (1e-7, 1e-4, 5e-4, 2e-3, 0.5):
            ends = np.array([low]), np.array([low + width * low])
            one, other = Samples.of(kind, *ends), Samples.of(exact, *map(in_balls, ends))
            for A, c in ((1.0, 0.0), (0.0, 1.0), (-0.5, 2.0)):
                assert plain(other.chord(A, c)) == pytest.approx(one.chord(A, c), rel=1e-9)


@pytest.mark.parametrize("name", ["exp", "square"])
def test_ranges_of_next_to_nothing_have_bounds_in_arb(name: str) -> None:
    """Scores that are equal are zero, but for what underflows."""
    ends = np.array([-5e-324]), np.array([5e-324])
    with ctx.workprec(BITS):
        _, low, high = Samples.of(kind_in_arb(name), *map(in_balls, ends)).lines(1.0, 0.0)
    for end in (*plain(low), *plain(high)):
        assert end == pytest.approx(float(name == "exp"), abs=1e-14)


def test_sums_of_anything_else_are_left_alone() -> None:
    own = Sum(0, np.arange(3), np.zeros(0, dtype=np.int64))
    assert convex([own], np.array([[1.0, 2.0, 0.5, 0.0]])) == (own,)
    assert not convex([own], np.array([[1.0, -2.0, 0.5, 0.0]]))
    assert not convex([own], np.array([[1.0, 2.0, 0.5, 1.0]]))  # and a unit
    assert not convex([Sum(0, np.arange(2), np.arange(1))], np.array([[1.0, 2.0, 0.5]]))


def test_what_is_not_finite_says_nothing() -> None:
    form, own, weight, bias = drawn(np.random.default_rng(0))
    form.offset[0, 0], form.away[1, 0], form.turn[2, 0, 0] = np.nan, np.inf, np.inf
    with np.errstate(all="ignore"):
        found = least(form, own, weight, bias, GAMMA)
    assert (found[:3] == -np.inf).all()
    assert np.isfinite(found[3])


def steep(seed: int) -> Network:
    """The same network on wider boxes, where its variance is near zero in places."""
    layers = normalised(seed).layers
    first = layers[0]
    curves = [Curve(Power(2.0), range(3))]
    wide = Layer(3.0 * first.dense_weight, first.bias, 1.0, 1.0, curves)
    return Network([wide, *layers[1:]])


@pytest.mark.parametrize("seed", range(3))
def test_variances_in_boxes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are at least what boxes say, in both arithmetics, which is more than it was."""
    rng, network, ends = np.random.default_rng(seed), steep(seed), []
    centre, reach = rng.uniform(-1, 1, (20, 2)), 2.0 ** -rng.uniform(0, 6, (20, 1))
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(squares, "convex", lambda sums, weight: ())
        statement, question = question_of(network)
        boxes = boxes_of(question, centre - reach, centre + reach, np.ones((20, 2)))
        found = question.chain.bound(np.ones((20, 1)), boxes)
        ends.append(found.layers[1].low[:, 0])
        exact = ChainInBalls(question.chain, hidden_of(statement))
        again = exact.bound(in_balls(np.ones((20, 1))), boxes_in_balls(boxes), known=found)
        assert plain(again.layers[1].low[:, 0]) == pytest.approx(ends[-1], abs=1e-9)
    first, second = network.layers[:2]
    for share in rng.random((200, 2)):
        x = centre + (2.0 * share - 1.0) * reach
        z = x @ first.dense_weight.T + first.bias
        value = (z[:, :3] ** 2) @ second.dense_weight[0, :3] + second.bias[0]
        assert (ends[0] <= value).all()
    assert (ends[0] >= ends[1]).all()
    assert (ends[0] > 1.02 * ends[1]).mean() > 0.2


def test_they_take_fewer_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Than the same statement would without them; a lower upper end is refused."""
    network = steep(1)
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    first = statement_of(problem, lipyomo.solve(problem, gap=1e-3, time_limit=10))
    assert first["format"] == "lipyomo-proof-8"
    first = first | {"upper": first["lower"] * 1.05}
    nodes, path = [], tmp_path / "a.proof"
    for alone in (True, False):
        with monkeypatch.context() as without:
            if alone:
                without.setattr(squares, "convex", lambda sums, weight: ())
            written(path, first)
            nodes.append(check_proof(path, digest=network_digest(network)).nodes)
    assert nodes[1] < 0.8 * nodes[0]
    assert check_proof(path, strict=True).upper_proved
    rejects_less(path, first)
