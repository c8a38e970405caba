"""Branch and bound finds the constant: brute force, degenerate networks, published values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipyomo
from lipyomo.networks.network import Network
from lipyomo.problems.domains import AllSpace, Box
from lipyomo.problems.norms import LinearOutput, OutputNorm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status
from networks import DEGENERATE, boxes, domains, mixed_network, random_network, small_networks
from oracle import exact_constant, regions
from references import load_reference

INPUTS = ("l1", "l2", "linf")
OUTPUTS = ("l1", "l2", "linf", "cross", "cross(0)", "linear")


def output_norm(name: str, m: int) -> OutputNorm | str:
    if name == "linear":
        rng = np.random.default_rng(m)
        return LinearOutput(vertices=rng.standard_normal((m + 2, m)))
    return name


def solved(problem: LipschitzProblem) -> Result:
    result = lipyomo.solve(problem, "bnb", time_limit=30)
    assert result.status is Status.EXACT
    assert result.witness is None or result.witness.margin > 0
    return result


def check(problem: LipschitzProblem) -> None:
    truth = exact_constant(problem)
    result = solved(problem)
    assert result.lower == pytest.approx(truth, rel=1e-7, abs=1e-9)
    assert result.upper >= truth * (1 - 1e-9)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_brute_force_agrees_on_random_networks_and_norms(data: st.DataObject) -> None:
    network = data.draw(small_networks())
    box = data.draw(boxes(network.input_dim))
    norm = output_norm(data.draw(st.sampled_from(OUTPUTS)), network.output_dim)
    check(LipschitzProblem(network, box, data.draw(st.sampled_from(INPUTS)), norm))


@pytest.mark.parametrize("domain", domains(2))
@pytest.mark.parametrize("input_norm", INPUTS)
def test_brute_force_agrees_on_every_kind_of_domain(domain: str, input_norm: str) -> None:
    """All pairs of a domain and norms of inputs and outputs, not all triples."""
    network = mixed_network(21, (2, 4, 3, 2))
    name = ("l2", "cross")[(list(domains(2)).index(domain) + INPUTS.index(input_norm)) % 2]
    check(LipschitzProblem(network, domains(2)[domain], input_norm, output_norm(name, 2)))


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks_are_solved(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    if case.constant is not None:
        assert solved(problem).lower == pytest.approx(case.constant, abs=1e-9)
    else:
        check(problem)


def test_splitting_the_domain_splits_the_answer() -> None:
    network = random_network(4, (3, 8, 6, 2))
    whole = solved(LipschitzProblem(network, Box(-1, 1, 3))).lower
    parts = []
    for low, high in ((-1.0, 0.2), (0.2, 1.0)):
        box = Box([low, -1, -1], [high, 1, 1])
        parts.append(solved(LipschitzProblem(network, box)).lower)
    assert max(parts) == pytest.approx(whole, rel=1e-9)


def test_permuting_and_scaling_units_changes_nothing() -> None:
    network = random_network(5, (4, 7, 5, 2))
    rng = np.random.default_rng(0)
    weights = [layer.dense_weight for layer in network.layers]
    biases = [layer.bias for layer in network.layers]
    order, scale = rng.permutation(7), rng.uniform(0.2, 5.0, 7)
    changed = Network.from_arrays(
        [scale[:, None] * weights[0][order], weights[1][:, order] / scale, weights[2]],
        [scale * biases[0][order], biases[1], biases[2]],
    )
    box = Box(-1, 1, 4)
    first = solved(LipschitzProblem(network, box, "l2", "l2"))
    second = solved(LipschitzProblem(changed, box, "l2", "l2"))
    assert second.lower == pytest.approx(first.lower, rel=1e-7)


@pytest.mark.parametrize("input_norm", ["linf", "l2"])
def test_many_inputs_use_the_eliminated_kernel(input_norm: str) -> None:
    # 60 inputs and 8 units: the wide kernel for linf, the rotated one for l2.
    network, box = random_network(7, (60, 5, 3, 1)), Box(-0.3, 0.3, 60)
    order = {"linf": 1, "l2": 2}[input_norm]
    gradients = [network.jacobian(pattern)[0] for pattern, _ in regions(network, box)]
    truth = max(np.linalg.norm(gradient, order) for gradient in gradients)
    result = solved(LipschitzProblem(network, box, input_norm))
    assert result.lower == pytest.approx(truth, rel=1e-9)


def load(path: Path) -> tuple[Network, dict[str, np.ndarray]]:
    known = load_reference(path)
    return known.network, known.arrays


@pytest.mark.reference
@pytest.mark.parametrize(
    "name",
    [
        "lipbab_iris_4-5-5-3",
        "lipbab_sd_10-15-10-3",
        "lipbab_sd_10-20-15-10-3",
        "exlipbab_iris_4-6-6-3",
        "exlipbab_wine_11-12-12-1",
        "lipmip_A_16-16-16-2_cube_s0",
        "lipmip_C_2-20-40-20-2_cube_s0",
    ],
)
def test_published_values_are_met_to_nine_digits(name: str, shared: Path) -> None:
    values = json.loads((shared / "reference" / "values.json").read_text())[name]["exact"]
    network, arrays = load(shared / "reference" / f"{name}.npz")
    domain = Box(arrays["lo"], arrays["hi"]) if "lo" in arrays else AllSpace(network.input_dim)
    for norms, value in values.items():
        alpha, beta = norms.split("->")
        problem = (
            LipschitzProblem(network, domain, alpha, functional=arrays["c"])
            if beta == "|.|"
            else LipschitzProblem(network, domain, alpha, beta)
        )
        assert solved(problem).lower == pytest.approx(value, rel=1e-9)


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(5))
def test_chen_networks_lie_below_the_published_bounds(seed: int, shared: Path) -> None:
    for sizes in ("10_12", "20_24"):
        name = f"chen_{sizes}_seed{seed}"
        values = json.loads((shared / "reference" / "values.json").read_text())[name]
        network, arrays = load(shared / "reference" / f"{name}.npz")
        result = solved(LipschitzProblem(network, Box(arrays["lo"], arrays["hi"])))
        assert result.lower == pytest.approx(values["exact_local"], abs=6e-5)
        assert result.lower <= values["local"]["hr2"] + 1e-6
