"""Proof files: true ones hold, tampered ones are exposed, bad ones get a sentence."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo.domains import Box
from lipyomo.errors import ProofError
from lipyomo.methods import run_method
from lipyomo.network import Layer, Network
from lipyomo.norms import CrossOutput, L1Output, L2Output, LinearOutput, LinfOutput
from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.dual import in_dual_ball
from lipyomo.proofs.file import (
    network_digest,
    proof_of,
    read_proof,
    verify_proof,
    write_proof,
)
from lipyomo.proofs.plain import domain_data, norm_data, read_domain, read_norm
from lipyomo.result import Result, Status
from lipyomo.settings import Settings
from networks import DEGENERATE, domains, mixed_network, random_network

QUICK = Settings(options={"evaluations": 600})
NETWORK = random_network(3, (2, 4, 3, 2))


def solved(problem: LipschitzProblem) -> tuple[Result, dict[str, Any]]:
    result = run_method("interval", problem, QUICK)
    return result, json.loads(json.dumps(proof_of(problem, result), allow_nan=False))


@pytest.mark.parametrize("kind", list(domains(2)))
@pytest.mark.parametrize(("norm_in", "out"), [("linf", "linf"), ("l1", "cross"), ("l2", "l2")])
def test_true_proofs_hold(kind: str, norm_in: str, out: str) -> None:
    problem = LipschitzProblem(NETWORK, domains(2)[kind], norm_in, out)
    result, proof = solved(problem)
    verdict = verify_proof(proof, NETWORK)
    assert verdict.lower_holds, verdict.checks
    assert verdict.lower <= result.lower
    assert verdict.lower == pytest.approx(result.lower, rel=1e-12)
    assert verdict.upper == result.upper
    assert verdict.upper_holds is not False


@pytest.mark.parametrize("name", DEGENERATE)
def test_proofs_of_degenerate_networks_hold(name: str) -> None:
    case = DEGENERATE[name]()
    _, proof = solved(LipschitzProblem(case.network, case.domain))
    assert verify_proof(proof, case.network).lower_holds


@pytest.mark.parametrize("norm", ["l1", "cross(1)", "user"])
def test_every_output_norm_comes_back(norm: str) -> None:
    own = LinearOutput(vertices=[[0.1, 0.7], [1.0, -0.3]])
    problem = LipschitzProblem(NETWORK, Box(-1, 1, 2), "l1", own if norm == "user" else norm)
    verdict = verify_proof(solved(problem)[1], NETWORK)
    assert verdict.lower_holds, verdict.checks


def tampered(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A true proof with one entry changed; callables get the old value."""
    _, proof = solved(LipschitzProblem(NETWORK, Box(-1, 1, 2)))
    changed = copy.deepcopy(proof)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("interval", "lower"), lambda low: low * (1 + 1e-15) + 1e-15),
        (("witness", "x"), [1.0, 0.0]),
        (("witness", "functional"), [1.0, 1.0]),
        (("witness", "pattern", 0), lambda row: "".join("10"[int(c)] for c in row)),
        (("network", "sha256"), "0" * 64),
        (("problem", "domain", "upper"), lambda high: [-0.999999 * h for h in high]),
    ],
)
def test_tampered_proofs_are_exposed(path: tuple[Any, ...], value: Any) -> None:
    assert not verify_proof(tampered(path, value), NETWORK).lower_holds


def test_an_upper_end_below_the_lower_one_is_false() -> None:
    assert verify_proof(tampered(("interval", "upper"), 1e-3), NETWORK).upper_holds is False
    assert verify_proof(tampered(("interval", "upper"), "inf"), NETWORK).upper_holds is True


def test_another_network_is_not_proved() -> None:
    _, proof = solved(LipschitzProblem(NETWORK, Box(-1, 1, 2)))
    verdict = verify_proof(proof, random_network(4, (2, 4, 3, 2)))
    assert not verdict.lower_holds


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("witness", "x"), "zero", "not a list of numbers"),
        (("witness", "x"), [0.0], "does not fit"),
        (("witness", "x"), [0.0, "inf"], "infinite"),
        (("witness", "pattern"), ["0"], "pattern"),
        (("problem", "domain", "kind"), "moon", "unknown kind"),
        (("interval",), {}, "no entry 'lower'"),
        (("interval", "lower"), float("nan"), "NaN"),
    ],
)
def test_malformed_proofs_get_a_sentence(path: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        verify_proof(tampered(path, value), NETWORK)


def test_files_come_back(tmp_path: Path) -> None:
    problem = LipschitzProblem(NETWORK, Box(-1, 1, 2))
    result, proof = solved(problem)
    write_proof(tmp_path / "proof.json", problem, result)
    assert read_proof(tmp_path / "proof.json") == proof
    (tmp_path / "text").write_text("no json")
    (tmp_path / "other.json").write_text("{}")
    for name, message in (
        ("missing.json", "cannot be read"),
        ("text", "not a JSON file"),
        ("other.json", "not a proof of the format"),
    ):
        with pytest.raises(ProofError, match=message):
            read_proof(tmp_path / name)
    with pytest.raises(ProofError, match="cannot be written"):
        write_proof(tmp_path / "no" / "folder.json", problem, result)


def test_results_without_a_witness_prove_nothing() -> None:
    problem = LipschitzProblem(NETWORK, Box(-1, 1, 2))
    with pytest.raises(ProofError, match="without a witness"):
        proof_of(problem, Result(0.0, 1.0, Status.BOUNDS, "test"))


def test_digests_know_networks_by_their_numbers() -> None:
    dense = mixed_network(1, (3, 4, 2))
    weight = np.where(np.abs(dense.layers[0].weight) > 0.3, dense.layers[0].weight, 0.0)
    rest = dense.layers[1:]
    slopes = dense.layers[0].left, dense.layers[0].right
    one = Network([Layer(weight, dense.layers[0].bias, *slopes), *rest])
    two = Network([Layer(sp.csr_array(weight), dense.layers[0].bias, *slopes), *rest], "other")
    assert network_digest(one) == network_digest(two)
    assert network_digest(one) != network_digest(dense)


@pytest.mark.parametrize("kind", list(domains(3)))
def test_domains_come_back(kind: str) -> None:
    domain = domains(3)[kind]
    again = read_domain(json.loads(json.dumps(domain_data(domain), allow_nan=False)))
    assert type(again) is type(domain)
    np.testing.assert_array_equal(again.lower, domain.lower)
    np.testing.assert_array_equal(again.upper, domain.upper)
    C = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(again.support(C), domain.support(C), rtol=1e-6)


def test_dual_balls_are_exact() -> None:
    third = 1.0 / 3.0
    assert in_dual_ball(LinfOutput(), np.full(3, third)) is True
    assert in_dual_ball(LinfOutput(), np.array([0.1, 0.2, 0.7000000000000001])) is False
    assert in_dual_ball(L1Output(), np.array([1.0, -1.0])) is True
    assert in_dual_ball(L1Output(), np.array([1.0000000000000002, 0.0])) is False
    assert in_dual_ball(CrossOutput(), np.array([1.0, -1.0, 0.0])) is True
    assert in_dual_ball(CrossOutput(), np.array([1.0, 0.5, 0.0])) is False
    assert in_dual_ball(CrossOutput(0), np.array([1.0, -1.0, 0.0])) is True
    assert in_dual_ball(CrossOutput(0), np.array([0.0, -1.0, 1.0])) is None
    assert in_dual_ball(L2Output(), np.array([0.6, 0.8])) is True
    assert in_dual_ball(L2Output(), np.array([5.0, 5.0])) is False
    norm = LinearOutput(vertices=[[0.5, 0.25]])
    assert in_dual_ball(read_norm(norm_data(norm, 2)), np.array([-0.5, -0.25])) is True
