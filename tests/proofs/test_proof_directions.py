"""Proofs of constants along directions: written, checked, and refused where they are false."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, ball
from lipyomo.base.errors import ProofError as NoProofError
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.proofs import write_proof
from lipyomo_check import ProofError, check_proof
from networks import random_network

NORMS = [("linf", "linf"), ("l1", "cross"), ("l2", "l2"), ("linf", "l1"), ("l2", "linf")]
KINDS = ["wrt", "weights", "few", "many"]


def directions(kind: str, d: int, rng: np.random.Generator) -> dict[str, Any]:
    """Some inputs, weighted ones, or a matrix whose product with weights rounds."""
    if kind == "wrt":
        return {"wrt": [0, d - 1]}
    if kind == "weights":
        return {"weights": rng.choice([0.5, 2.0, 3.0], size=d)}
    return {"directions": rng.standard_normal((d, 2 if kind == "few" else d + 2))}


def smooth(d: int, seed: int, name: str) -> Network:
    rng = np.random.default_rng(seed)
    curve = Curve(activation(name), np.arange(3))
    first = Layer(rng.standard_normal((4, d)), rng.standard_normal(4), np.zeros(4), curves=(curve,))
    return Network([first, Layer(rng.standard_normal((2, 4)), np.zeros(2))])


@pytest.mark.parametrize(
    ("kind", "input_norm", "output_norm", "where"),  # all pairs, not all triples
    [
        (kind, *norms, ("box", "ball", "frozen")[(i + j) % 3])
        for i, kind in enumerate(KINDS)
        for j, norms in enumerate(NORMS)
    ],
)
def test_a_proof_along_directions_holds_and_is_about_them(
    tmp_path: Path, kind: str, input_norm: str, output_norm: str, where: str
) -> None:
    rng = np.random.default_rng(len(kind) + len(where))
    network = random_network(3, (3, 3, 3, 2))
    domain: Domain = Box(-1, 1, 3) if where == "box" else ball(np.zeros(3), 1.0, "l2")
    asked = directions(kind, 3, rng)
    if where == "frozen":
        domain = Box([-1, 0.5, -1], [1, 0.5, 1])
        if "directions" in asked:
            asked["directions"][1] = 0.0
    problem = LipschitzProblem(network, domain, input_norm, output_norm, **asked)
    result = lipyomo.solve(problem, "bnb", gap=0.1)
    path = tmp_path / "p"
    write_proof(path, problem, result)
    verdict = check_proof(path)
    assert verdict.upper_proved
    assert verdict.statement.lower <= result.upper
    assert f"along {problem.directions.shape[1]} directions" in " ".join(verdict.words())


@pytest.mark.parametrize(
    ("kind", "input_norm", "name"),  # all pairs, not all triples
    [
        (kind, norm, ("tanh", "elu")[(i + j) % 2])
        for i, kind in enumerate(KINDS)
        for j, norm in enumerate(("linf", "l1"))
    ],
)
def test_a_proof_of_boxes_along_directions(
    tmp_path: Path, kind: str, input_norm: str, name: str
) -> None:
    asked = directions(kind, 3, np.random.default_rng(1))
    problem = LipschitzProblem(smooth(3, 3, name), Box(-1, 1, 3), input_norm, "linf", **asked)
    result = lipyomo.solve(problem, gap=0.5)
    path = tmp_path / "p"
    assert write_proof(path, problem, result).cases
    assert check_proof(path, strict=kind in ("wrt", "many")).upper_proved
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    first = json.loads(line)
    rows = first["directions"]["rows"] = [[0.0] * problem.directions.shape[1] for _ in range(3)]
    rows[0][0] = 50.0
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + payload))
    with pytest.raises(ProofError):
        check_proof(path)


def test_an_affine_network_along_directions(tmp_path: Path) -> None:
    network = Network([Layer(np.array([[0.1, 0.2, 0.3]]), np.zeros(1))])
    problem = LipschitzProblem(network, Box(-1, 1, 3), directions=[[0.1], [0.2], [0.3]])
    path = tmp_path / "p"
    write_proof(path, problem, lipyomo.solve(problem))
    assert check_proof(path).upper_proved


@pytest.mark.parametrize("entry", [0, 1])
def test_other_directions_are_another_claim(tmp_path: Path, entry: int) -> None:
    network = random_network(5, (2, 6, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 2), directions=[[1.0], [-0.5]])
    path = tmp_path / "p"
    write_proof(path, problem, lipyomo.solve(problem))
    line, _, rest = gzip.decompress(path.read_bytes()).partition(b"\n")
    first = json.loads(line)
    for factor in (0.9, 1.1, -1.0, 0.0):
        rows = [list(row) for row in ([1.0], [-0.5])]
        rows[entry][0] *= factor
        record = first | {"directions": {"columns": 1, "rows": rows}}
        path.write_bytes(gzip.compress(json.dumps(record).encode() + b"\n" + rest))
        with pytest.raises(ProofError):
            check_proof(path)


def test_infinite_weights_are_refused(tmp_path: Path) -> None:
    network = random_network(5, (2, 6, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 2), weights=[1.0, np.inf])
    result = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2), wrt=[0]))
    with pytest.raises(NoProofError, match="infinite"):
        write_proof(tmp_path / "p", problem, result)
