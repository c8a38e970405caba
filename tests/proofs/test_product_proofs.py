"""Proofs of networks with products, quotients and derivatives."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import AllSpace, Box, LipschitzProblem, Network, ball
from lipyomo.base.clock import Clock
from lipyomo.networks import gradient, product, quotient, square
from lipyomo.networks.activations import Log, Power
from lipyomo.networks.network import Curve, Layer
from lipyomo.proofs import network_digest, write_proof
from lipyomo.proofs.boxes import write_boxes
from lipyomo.proofs.writing import statement_of
from lipyomo_check import ProofError, check_proof
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import read_statement


def tanh_network(sizes: list[int], seed: int) -> Network:
    """A random tanh network."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.standard_normal((n, m)) * 1.3 / np.sqrt(m) for m, n in pairs]
    biases = [0.5 * rng.standard_normal(n) for _, n in pairs]
    return Network.from_arrays(weights, biases, activation="tanh")


def proved(path: Path, network: Network, *asked: Any, strict: bool = False, **more: Any) -> None:
    """Prove a constant, and check that."""
    problem = LipschitzProblem(network, *asked, **more)
    result = lipyomo.solve(problem, gap=1e-2, time_limit=30)
    written = write_proof(path, problem, result)
    verdict = check_proof(path, digest=network_digest(network), strict=strict)
    assert verdict.upper_proved
    assert written.cases == verdict.nodes > 0
    assert verdict.statement.upper <= max(result.upper, result.lower * (1 + 1e-6)) * (1 + 2e-9)


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """The first line of a proof, and its bytes."""
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    return json.loads(line), payload


def write(path: Path, first: dict[str, Any], payload: bytes) -> None:
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + payload))


F, G = tanh_network([2, 4, 1], 0), tanh_network([2, 3, 1], 1)
SAMPLES = {
    "product": product(F, G),
    "square": square(F),
    "quotient": quotient(
        F, Network.from_arrays([[[0.2, 0.1]], [[1.0]]], [[0.0], [3.0]], activation="tanh")
    ),
    "gradient": gradient(tanh_network([2, 3, 3, 1], 2)),
    "product of products": product(product(F, G), square(G)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_proofs_hold(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    proved(path, SAMPLES[name], Box(-0.5, 0.5, 2), strict=name in ("product", "quotient"))
    first, _ = parts(path)
    multiplies = any("products" in layer for layer in first["network"])
    assert multiplies == (name != "square")
    assert first["format"] == "lipyomo-proof-8"


def test_norms_domains_and_directions(tmp_path: Path) -> None:
    both = Network(
        [
            *product(F, G).layers[:-1],
            Layer(np.vstack([product(F, G).head.dense_weight, SCALED]), [0.0, 0.0]),
        ]
    )
    box = Box(-0.1, 0.2, 2)
    for k, (domain, norms, more) in enumerate(
        [
            (box, ("l1", "l1"), {}),
            (box, ("linf", "linf"), {"functional": [1.0, -2.0]}),
            (box, ("linf", "l2"), {}),
            (box, ("l2", "l2"), {}),
            (ball([0.1, 0.2], 0.25, "l2"), ("l2", "linf"), {}),
            (box, ("linf", "linf"), {"directions": [[1.0], [0.3]]}),
        ]
    ):
        if "functional" in more:
            norms = norms[:1]
        proved(tmp_path / f"{k}.proof", both, domain, *norms, strict=k == 3, **more)


SCALED = 0.5 * product(F, G).head.dense_weight + 0.1 * np.eye(len(product(F, G).head.weight.T))[:1]


def _first(problem: LipschitzProblem) -> dict[str, Any]:
    from lipyomo.proofs.records import domain_record, network_record

    return {
        "format": "lipyomo-proof-8",
        "network": network_record(problem.network),
        "domain": domain_record(problem.domain),
        "input_norm": "linf",
        "output_norm": "linf",
        "lower": 0.0,
        "upper": 1.0,
        "onnx": None,
        "witness": {"x": problem.domain.center.tolist()},
        "basis": None,
    }


def test_a_singularity_inside_a_box_leaves_no_bound() -> None:
    """Nothing ends a box on which a function is not defined, whatever it is multiplied with."""
    for name in ("reciprocal", "rsqrt", "log"):
        kind = {"reciprocal": Power(-1.0), "rsqrt": Power(-0.5), "log": Log()}[name]
        network = Network([Layer([[1.0]], [2.0], curves=[Curve(kind, [0])]), Layer([[0.0]], [0.0])])
        first = _first(LipschitzProblem(network, Box(-1, 1, 1)))
        for low in (-2.0, -3.0, -2.5):
            first["domain"] |= {"lower": [low]}
            question = Question.of(read_statement(first | {"witness": {"x": [0.5]}}))
            assert not question.bounded(question.first).may_end.any()
        first["domain"] |= {"lower": [-1.9]}
        question = Question.of(read_statement(first))
        assert question.bounded(question.first).may_end.all()


def test_pairs_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    proved(path, SAMPLES["product"], Box(-0.5, 0.5, 2))
    first, payload = parts(path)
    at = next(k for k, layer in enumerate(first["network"]) if "products" in layer)
    (p, q), *_ = first["network"][at]["products"]
    for wrong in ([[p, p]], [[p, q], [p, q]], [[p, 99]], [[p]], 3):
        layers = list(first["network"])
        layers[at] = layers[at] | {"products": wrong}
        write(path, first | {"network": layers}, payload)
        with pytest.raises(ProofError):
            check_proof(path)
    after = first["network"][at + 1]
    changed = [[a * (1.0 + 2.0**-52 * (j == q)) for j, a in enumerate(row)] for row in dense(after)]
    layers = list(first["network"])
    layers[at + 1] = after | {"weight": changed}
    write(path, first | {"network": layers}, payload)
    with pytest.raises(ProofError, match="opposite"):
        check_proof(path)
    for name in ("lipyomo-proof-7", "lipyomo-proof-4"):
        write(path, first | {"format": name}, payload)
        with pytest.raises(ProofError):
            check_proof(path)


def dense(layer: dict[str, Any]) -> list[list[float]]:
    """Rows of a weight with their zeros."""
    found = []
    for row in layer["weight"]:
        if row and isinstance(row[0], list):
            entries = dict(zip(*row, strict=True))
            row = [entries.get(j, 0.0) for j in range(layer["inputs"])]
        found.append(row)
    return found


def test_products_read_as_squares_are_proved_as_well(tmp_path: Path) -> None:
    """Pairs are a reading of the network, not another one."""
    path = tmp_path / "a.proof"
    network = SAMPLES["product"]
    problem = LipschitzProblem(network, Box(0.1, 0.2, 2))
    result = lipyomo.solve(problem, gap=1e-3)
    first = statement_of(problem, result)
    layers = [{k: v for k, v in one.items() if k != "products"} for one in first["network"]]
    first = first | {"network": layers, "upper": result.upper * 1.02}
    chunks: list[bytes] = []
    write_boxes(read_statement(first), Clock(), chunks.append, lambda done: None)
    write(path, first, b"".join(chunks))
    verdict = check_proof(path, digest=network_digest(network))
    assert verdict.upper_proved


def test_without_bounded_domains_only_the_lower_end_is_proved(tmp_path: Path) -> None:
    problem = LipschitzProblem(gradient(F), AllSpace(2))
    result = lipyomo.solve(problem, time_limit=0.5)
    if not np.isfinite(result.upper):
        pytest.skip("no upper end")
    assert write_proof(tmp_path / "a.proof", problem, result, time_limit=1.0).cases == 0
