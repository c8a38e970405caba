"""Proofs of networks whose products have factors in common."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import ctx

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.clock import Clock
from lipyomo.networks import product
from lipyomo.networks.activations import HALVES, Power
from lipyomo.networks.network import Curve, Layer
from lipyomo.proofs import network_digest
from lipyomo.proofs.boxes import write_boxes
from lipyomo.proofs.writing import statement_of
from lipyomo_check import ProofError, check_proof
from lipyomo_check.parts import BITS
from lipyomo_check.smooth import bound, layers
from lipyomo_check.smooth.balls import in_balls, plain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.common import Common
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.strict import ChainInBalls, boxes_in_balls
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import Statement, read_statement
from tests.proofs.test_product_proofs import _first as first_line
from tests.proofs.test_product_proofs import parts, tanh_network, write


def gated(seed: int, entries: int = 3, inputs: int = 2) -> Network:
    """Entries that are multiplied with a number in common, but for powers of two; summed up."""
    rng = np.random.default_rng(seed)
    values, factor = (
        tanh_network([inputs, 4, entries], seed),
        tanh_network([inputs, 3, 1], seed + 1),
    )
    scale = np.array([1.0, -2.0, 0.5, 1.0, 4.0])[:entries, None]
    rows = values.layers[-1].dense_weight, scale * factor.layers[-1].dense_weight
    made = product(
        *(
            Network([*one.layers[:-1], Layer(own, np.zeros(entries))])  # biases of sums would round
            for one, own in zip((values, factor), rows, strict=True)
        )
    )
    head = made.layers[-1]
    row = rng.standard_normal((1, entries))
    return Network([*made.layers[:-1], Layer(row @ head.dense_weight, row @ head.bias)])


def normalised(seed: int) -> Network:
    """``sum_k a_k s_k / sqrt(sum_k c_k s_k^2 + 1/100)`` of affine functions s of two inputs."""
    rng, entries = np.random.default_rng(seed), 3
    rows, shifts = rng.standard_normal((entries, 2)), rng.standard_normal(entries)
    squares = Curve(Power(2.0), range(entries))
    first = Layer(np.vstack([rows, rows]), np.tile(shifts, 2), 1.0, 1.0, [squares])
    weight = np.zeros((1 + entries, 2 * entries))
    weight[0, :entries] = rng.uniform(0.5, 1.0, entries)
    weight[1:, entries:] = np.eye(entries)
    root = Layer(weight, [0.01, 0.0, 0.0, 0.0], 1.0, 1.0, [Curve(Power(-0.5), [0])])
    root_too = np.full((entries, 1), 0.5)
    signs = [np.hstack([root_too, sign * 0.5 * np.eye(entries)]) for sign in (1.0, -1.0)]
    pairs = [Curve(half, k * entries + np.arange(entries)) for k, half in enumerate(HALVES)]
    both = Layer(np.vstack(signs), np.zeros(2 * entries), 1.0, 1.0, pairs)
    factors = rng.standard_normal(entries)
    return Network([first, root, both, Layer([[*factors, *-factors]], [0.0])])


def question_of(network: Network) -> tuple[Statement, Question]:
    """What a proof states, without ends that say anything."""
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim))
    statement = read_statement(first_line(problem))
    return statement, Question.of(statement)


@pytest.fixture(scope="module")
def stated() -> tuple[Network, dict[str, Any]]:
    """A network, and a first line whose upper end is a twentieth above its constant."""
    network = gated(1, entries=5)
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    first = statement_of(problem, lipyomo.solve(problem, gap=1e-3, time_limit=10))
    assert first["format"] == "lipyomo-proof-8"
    return network, first | {"upper": first["lower"] * 1.05}


def written(path: Path, first: dict[str, Any]) -> None:
    """A proof of what is stated."""
    chunks: list[bytes] = []
    write_boxes(read_statement(first), Clock(), chunks.append, lambda done: None)
    write(path, first, b"".join(chunks))


def boxes_of(question: Question, low: np.ndarray, high: np.ndarray, v: np.ndarray) -> Boxes:
    anywhere = np.full((len(low), len(question.chain.broken)), np.inf)
    return Boxes.whole(low, high, -v, v, -anywhere, anywhere)


def groups(question: Question) -> list[Common]:
    found = (question.chain.mode(i).common for i in range(len(question.chain.levels)))
    return [one for one in found if one is not None]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["gated", "normalised"])
def test_bounds_hold_in_float64_and_in_arb(kind: str, seed: int) -> None:
    """Derivatives in boxes are no larger; bounds are, and Arb confirms those that are finite."""
    rng = np.random.default_rng(seed)
    network = gated(seed, entries=3 + seed) if kind == "gated" else normalised(seed)
    statement, question = question_of(network)
    assert [one.products.size for one in groups(question)] == [3 + (kind == "gated") * seed]
    centre, reach = rng.uniform(-1, 1, (12, 2)), 2.0 ** -rng.uniform(0, 12, (12, 1))
    boxes = boxes_of(question, centre - reach, centre + reach, np.ones((12, 2)))
    functionals = np.where(rng.random((12, 1)) < 0.5, -1.0, 1.0)
    bounded = question.chain.bound(functionals, boxes)
    assert np.isfinite(bounded.upper).all()
    assert any(planes.sums[:, 4].any() for planes in bounded.planes)
    for share in (*itertools.product((0.0, 1.0), repeat=2), *rng.random((20, 2))):
        x = boxes.low + share * (boxes.high - boxes.low)
        steps = 1e-6 * np.eye(2)
        slopes = np.stack([(network(x + h) - network(x - h))[:, 0] for h in steps]) / 2e-6
        assert (np.abs(slopes).sum(axis=0) <= bounded.upper + 1e-7).all()
    with ctx.workprec(BITS):
        exact = ChainInBalls(question.chain, hidden_of(statement))
        found = exact.bound(in_balls(functionals), boxes_in_balls(boxes), known=bounded)
        assert (found.upper <= bounded.upper).all()
        assert plain(found.upper) == pytest.approx(bounded.upper, rel=1e-5)


def test_groups_take_multiples_by_powers_of_two_and_no_others() -> None:
    _, question = question_of(gated(0))
    (own,) = groups(question)
    assert own.rows.size == 1
    assert own.scale.tolist() == [1.0, -2.0, 2.0]
    two = gated(0, entries=2)  # of two less cancels than it takes to find out
    assert not groups(question_of(two)[1])


def test_they_take_fewer_cases(
    stated: tuple[Network, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Than the same statement would if there were no groups."""
    network, first = stated
    nodes, path = [], tmp_path / "a.proof"
    for alone in (True, False):
        with monkeypatch.context() as without:
            if alone:
                without.setattr(bound, "common_of", lambda level: None)
            written(path, first)
            verdict = check_proof(path, digest=network_digest(network))
        assert verdict.upper_proved
        nodes.append(verdict.nodes)
    assert nodes[1] < nodes[0]


def rejects_less(path: Path, first: dict[str, Any]) -> None:
    """Neither arithmetic takes the cases of a file for an upper end just above the lower one."""
    _, payload = parts(path)
    write(path, first | {"upper": first["lower"] * 1.001}, payload)
    for strict in (False, True):
        with pytest.raises(ProofError):
            check_proof(path, strict=strict)


def test_roots_of_sums_of_squares_have_lower_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is one function, and its root's tangent bounded by a ratio."""
    question = question_of(normalised(0))[1]
    centre = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    ends = []
    for joint in (True, False):
        of = question.chain
        if not joint:
            monkeypatch.setattr(bound, "sums_of", lambda level, weight: ())
            monkeypatch.setattr(layers, "_ratios", lambda *_: ())
        chain = Chain(of.levels, of.head, 1.0, question.domain)
        boxes = boxes_of(question, centre - 0.2, centre + 0.2, np.ones((20, 2)))
        found = chain.bound(np.ones((20, 1)), boxes)
        (of_z, of_u), ratio = found.rows[1], found.layers[1].tangents(chain.levels[1])[1][:, 0]
        ends.append([of_z.high[:, 0], -of_z.low[:, 0], (of_u.high - of_u.low)[:, 0], ratio])
    new, old = (np.array(part) for part in ends)
    finite = np.isfinite(old)
    assert finite.mean() > 0.5
    assert (new[finite] <= old[finite] + 1e-9).all()
    assert (new[finite] < 0.9 * old[finite]).mean() > 0.2


def test_strict_checks_confirm_and_reject(
    stated: tuple[Network, dict[str, Any]], tmp_path: Path
) -> None:
    path, first = tmp_path / "a.proof", stated[1]
    first = first | {"upper": first["lower"] * 1.4}
    written(path, first)
    assert check_proof(path, strict=True).upper_proved
    rejects_less(path, first)
