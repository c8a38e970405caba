"""Proofs of largest values, on domains and on shells."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from fuzz.fuzz_proofs import falsified
from lipyomo import Box, Network, Polytope, ball
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProofError as RefusedError
from lipyomo.networks import product, square
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Point
from lipyomo.proofs import lie_network, network_digest, write_value_proof
from lipyomo.proofs.boxes import write_boxes
from lipyomo_check import ProofError, check_proof
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.cases import Cases
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import read_statement


def network(inputs: int, outputs: int, seed: int, kind: str = "tanh") -> Network:
    """One hidden layer of four units."""
    rng = np.random.default_rng(seed)
    weight, head = rng.standard_normal((4, inputs)), rng.standard_normal((outputs, 4))
    first = Layer(weight, rng.standard_normal(4), curves=[Curve(activation(kind), range(4))])
    return Network([first, Layer(head, rng.standard_normal(outputs))])


F, G = network(2, 1, 0), network(2, 1, 1)
V, FIELD = square(network(2, 1, 2)), network(2, 2, 3)
BOX = Box(-1, 1, 2)


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """The first line of a proof, and its bytes."""
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    return json.loads(line), payload


def write(path: Path, first: dict[str, Any], payload: bytes) -> None:
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + payload))


@pytest.mark.parametrize("name", ["smooth", "kinks", "product", "affine", "two slopes"])
def test_both_ends_are_proved(name: str, tmp_path: Path) -> None:
    kinks = Network.from_arrays([[[1.0, -1.0], [0.3, 0.7]], [[2.0, -1.0]]], [[0.1, 0.0], [0.5]])
    own = {
        "smooth": F,
        "kinks": product(F, kinks),
        "product": product(F, G),
        "affine": Network([Layer(np.eye(2), [0.0, 0.0]), Layer([[1.0, -2.0]], [0.5])]),
        "two slopes": kinks,
    }[name]
    path = tmp_path / "a.proof"
    for domain in (BOX, ball([0.1, 0.2], 0.5, "l2")) if name == "smooth" else (BOX,):
        found = lipyomo.value_range(own, domain)
        written = write_value_proof(path, own, domain, found)
        verdict = check_proof(path, digest=network_digest(own), strict=name != "product")
        assert verdict.upper_proved
        assert verdict.nodes == written.cases
        assert verdict.statement.vertices == [[1.0], [-1.0]]
        assert verdict.statement.ends is not None
        truths = found.high, tuple(-end for end in found.low[::-1])
        for ends, truth in zip(verdict.statement.ends, truths, strict=True):
            assert ends[0] <= truth[0] <= truth[1] <= ends[1]
            assert ends[1] - ends[0] <= found.tolerance * 1.1 + 1e-8 * max(map(abs, ends))


def test_ranges_of_several_rows_are_in_one_file(tmp_path: Path) -> None:
    path, own, rows = tmp_path / "a.proof", network(2, 3, 5), [[1.0, 0.0, 0.0], [0.5, -1.0, 0.0]]
    found = [lipyomo.value_range(own, BOX, row) for row in rows]
    write_value_proof(path, own, BOX, found, rows)
    statement = check_proof(path, digest=network_digest(own)).statement
    assert [one.split(" c . f")[0] for one in statement.words()[2:]] == [
        "largest value of",
        "least value of",
        "largest value of",
        "least value of",
    ]
    write_value_proof(path, own, BOX, found[0], rows[0], ends="low")
    assert check_proof(path).statement.vertices == [[-1.0, 0.0, 0.0]]
    for wrong in ({"functional": rows[:1]}, {"functional": rows, "ends": "all"}):
        with pytest.raises(RefusedError):
            write_value_proof(path, own, BOX, found, **wrong)


def test_a_lie_derivative_on_a_shell(tmp_path: Path) -> None:
    """The shell matters: the largest value lies on its edge."""
    path = tmp_path / "a.proof"
    low, high = 0.2, 0.85
    found = lipyomo.lie_derivative(V, FIELD, BOX, shell=(low, high))
    some = replace(
        found,
        low=(found.low[0] - 0.05, found.low[1]),
        high=(found.high[0], found.high[1] + 0.05),
    )
    along = lie_network(V, FIELD)
    everywhere = along.forward(BOX.sample(np.random.default_rng(0), 4000))[:, 0]
    for end in ("high", "low"):
        write_value_proof(path, along, BOX, some, shell=(V, (low, high)), ends=end)
        digests = network_digest(along), network_digest(V)
        verdict = check_proof(path, digest=digests[0], shell=digests[1], strict=end == "high")
        assert verdict.upper_proved
        assert end == "low" or verdict.statement.upper < everywhere.max() - 0.3
        assert any("trusted      that lipyomo reads" in line for line in verdict.words())
        with pytest.raises(ProofError, match="another function"):
            check_proof(path, shell=digests[0])
        first, payload = parts(path)
        write(path, first | {"shell": None}, payload)
        with pytest.raises(ProofError):
            check_proof(path)
        path.unlink()


def test_bounds_hold_at_sampled_points_of_shells() -> None:
    rng = np.random.default_rng(3)
    along, low, high = lie_network(V, FIELD), 0.1, 0.3
    question = Question.of(read_statement(_first(along, low, high)))
    inside = 0
    for width in (1.0, 0.3, 0.05, 1e-4):
        centre = rng.uniform(-1, 1, (40, 2))
        ends = np.maximum(centre - width, -1.0), np.minimum(centre + width, 1.0)
        none = np.zeros((40, 0))
        boxes = Boxes.whole(*ends, none, none, none, none)
        taken = question.bounded(Cases(boxes, np.zeros(40, dtype=np.int64)))
        for _ in range(40):
            x = ends[0] + rng.random((40, 2)) * (ends[1] - ends[0])
            level, value = V.forward(x)[:, 0], along.forward(x)[:, 0]
            on = (low <= level) & (level <= high)
            inside += int(on.sum())
            assert (value <= taken.bounded.upper + 1e-9)[on].all()
            assert (value <= question.upper + 1e-9)[on & taken.may_end].all()
    assert inside > 300


def _first(along: Network, low: float, high: float) -> dict[str, Any]:
    from lipyomo.proofs.records import domain_record, network_record

    return {
        "format": "lipyomo-proof-8",
        "question": "values",
        "network": network_record(along),
        "domain": domain_record(BOX),
        "input_norm": "linf",
        "output_norm": {"vertices": [[1.0]]},
        "lower": [-9.0],
        "upper": [0.2],
        "onnx": None,
        "witness": {"points": [[0.0, 0.0]]},
        "basis": None,
        "shell": {"network": network_record(V), "low": low, "high": high},
    }


def test_false_claims_are_rejected(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "a.proof"
    own = product(F, G)
    write_value_proof(path, own, BOX, lipyomo.value_range(own, BOX))
    first, payload = parts(path)
    for _ in range(15):
        path.write_bytes(falsified(first, payload, rng))
        with pytest.raises(ProofError):
            check_proof(path)
    for wrong in (
        {"output_norm": "linf", "question": "value"},
        {"question": "values", "format": "lipyomo-proof-7"},
        {"output_norm": {"vertices": [[1.0]]}},
        {"output_norm": {"vertices": [[1.0], [2.0]]}},
        {"output_norm": "l2"},
        {"output_norm": "l2", "directions": {"columns": 1, "rows": [[1.0], [0.0]]}},
        {"slopes": True},
        {"shell": {"network": first["network"][:1], "low": 0.0, "high": 1.0}},
        {"shell": {"network": first["network"], "low": 1.0, "high": 0.0}},
        {"shell": {"network": first["network"], "low": 50.0, "high": None}},
        {"witness": {"points": first["witness"]["points"][::-1]}},
        {"witness": {"points": first["witness"]["points"][:1]}},
        {"witness": {"points": [[2.0, 0.0]] * 2}},
        {"lower": first["lower"][:1], "upper": first["upper"][:1]},
        {"upper": first["upper"][::-1]},
        {"upper": first["upper"][0]},
        {"upper": [end - 1.0 for end in first["lower"]]},
    ):
        write(path, first | wrong, payload)
        with pytest.raises(ProofError):
            check_proof(path)


def test_polytopes_and_least_values_below_zero(tmp_path: Path) -> None:
    path, domain = tmp_path / "a.proof", Polytope([[1.0, 1.0]], [0.5], -1, 1)
    own = Network([*G.hidden, Layer(G.head.weight, G.head.bias - 7.0)])
    write_value_proof(path, own, domain, lipyomo.value_range(own, domain), ends="high")
    assert check_proof(path, strict=True).statement.upper < 0.0


def test_ranges_without_a_witness_are_refused(tmp_path: Path) -> None:
    found = Range((0.0, 1.0), (1.0, 2.0))
    with pytest.raises(RefusedError, match="witness"):
        write_value_proof(tmp_path / "a.proof", F, BOX, found)
    assert not (tmp_path / "a.proof").exists()


def test_without_time_what_is_attained_is_proved(tmp_path: Path) -> None:
    path, found = tmp_path / "a.proof", lipyomo.value_range(F, BOX)
    assert write_value_proof(path, F, BOX, found, time_limit=0.0).upper is None
    verdict = check_proof(path)
    assert not verdict.upper_proved
    assert verdict.statement.lower == pytest.approx(max(found.high[0], -found.low[1]))


def test_witnesses_between_float64_numbers_have_neighbours(tmp_path: Path) -> None:
    path, kinks = tmp_path / "a.proof", Network.from_arrays([[[1.0]], [[-1.0]]], [[-1.0], [0.0]])
    at = Point(np.array([1.0]), rest=np.array([1e-20]))
    found = Range((-1.0, -1.0), (0.0, 0.0), (Point(np.array([2.0])), at))
    write_value_proof(path, kinks, Box(0, 2, 1), found)
    assert check_proof(path).upper_proved


def test_kinks_beyond_both_sides_of_an_edge_do_not_hide_points(tmp_path: Path) -> None:
    """A piecewise-linear V: its kinks are no phases of the derivative's boxes."""
    level = Network.from_arrays([[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 1.0]]])  # |x_0|
    own = Network([Layer([[1.0, 0.5]], [0.0], curves=[Curve(activation("tanh"), [0])]), ONE])
    first = _first(own, 0.25, 0.5) | {"upper": [float(np.tanh(1.0) + 1e-6)]}
    from lipyomo.proofs.records import network_record

    first["shell"]["network"] = network_record(level)
    parts_: list[bytes] = []
    first |= {"lower": [float(np.tanh(0.99))], "witness": {"points": [[0.5, 1.0]]}}
    write_boxes(read_statement(first), Clock(), parts_.append, lambda done: None)
    path = tmp_path / "a.proof"
    write(path, first, b"".join(parts_))
    assert check_proof(path, strict=True).upper_proved
    write(path, first | {"witness": {"points": [[0.6, 1.0]]}}, b"".join(parts_))
    with pytest.raises(ProofError, match="shell"):
        check_proof(path)


ONE = Layer([[1.0]], [0.0])
