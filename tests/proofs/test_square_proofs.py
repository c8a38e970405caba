"""Sums of squares in proofs: what they are at least on boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.activations import Power
from lipyomo.networks.network import Curve, Layer
from lipyomo.proofs import network_digest
from lipyomo.proofs.writing import statement_of
from lipyomo_check import check_proof
from lipyomo_check.smooth import squares
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.factors import Form
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.lines import Samples
from lipyomo_check.smooth.powers import UNBOUNDED
from lipyomo_check.smooth.squares import convex, least
from lipyomo_check.smooth.strict import StrictChain
from lipyomo_check.smooth.strict_factors import Form as StrictForm
from lipyomo_check.smooth.strict_pieces import chord, extremes, pieces_of
from lipyomo_check.smooth.strict_whole import least_square
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
    for n, value in enumerate(found.tolist()):
        whole = zip(form.turn[n].tolist(), form.offset[n].tolist(), form.away[n], strict=True)
        z = [
            StrictForm(list(map(arb, turn)), arb(o), arb(float(e)), (arb(0), arb(0)))
            for turn, o, e in whole
        ]
        exact = least_square(own, list(map(arb, weight[0].tolist())), arb(float(bias[0])), z)
        size = float((weight[0] * form.size[n] ** 2).sum()) + 1.0
        assert float(exact.lower()) >= value
        assert float(exact) == pytest.approx(value, abs=1e-11 * size)


@pytest.mark.parametrize("name", ["rsqrt", "reciprocal", "log", "square"])
def test_both_arithmetics_choose_the_same_lines(name: str) -> None:
    """Of narrow ranges near zero, too, where chords count that would be too narrow elsewhere."""
    unit = Unit(UNBOUNDED[name], name, 1.0, 1.0)
    for low in (1e-3, 0.2, 3.0):
        for width in (1e-7, 1e-4, 5e-4, 2e-3, 0.5):
            high = low + width * low
            one = Samples.of(unit.kind, np.array([low]), np.array([high]))
            for A, c in ((1.0, 0.0), (0.0, 1.0), (-0.5, 2.0)):
                found = float(chord(unit.kind, pieces_of(unit, low, high), arb(A), arb(c)))
                assert found == pytest.approx(one.chord(A, c)[0], rel=1e-9)


@pytest.mark.parametrize("name", ["exp", "square"])
def test_ranges_of_next_to_nothing_have_bounds_in_arb(name: str) -> None:
    """Scores that are equal are zero, but for what underflows."""
    unit = Unit(UNBOUNDED[name], name, 1.0, 1.0)
    with ctx.workprec(256):
        pieces = pieces_of(unit, -5e-324, 5e-324)
        s = chord(unit.kind, pieces, arb(1), arb(0))
        middle, reach = extremes(pieces, arb(1), arb(0), s)
    assert float(middle) == pytest.approx(float(name == "exp"), abs=1e-15)
    assert 0.0 <= float(reach.upper()) < 1e-15


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
        strict = StrictChain(question.chain, hidden_of(statement))
        for k in range(5):
            own = boxes.part(slice(k, k + 1))
            known = question.chain.bound(np.ones((1, 1)), own)
            _, layers = strict.bound(np.ones(1), own, known)
            assert float(layers[1].pieces[0][0].ends[0]) == pytest.approx(ends[-1][k], abs=1e-9)
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
