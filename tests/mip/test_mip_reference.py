"""Networks of other groups: the values that they published or that were recomputed."""

from __future__ import annotations

import json

import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from references import load_reference

pytestmark = pytest.mark.reference


def read(shared, name):
    """A network and what comes with it."""
    known = load_reference(shared / "reference" / f"{name}.npz")
    return known.network, known.arrays


@pytest.fixture(scope="module")
def published(shared):
    return json.loads((shared / "reference" / "values.json").read_text(encoding="utf-8"))


def exact(problem, solver="highs"):
    result = lipyomo.solve(problem, "mip", solver=solver, workers=1, time_limit=120)
    assert result.status is Status.EXACT
    return result.lower


@pytest.mark.parametrize("norm", ["linf", "l1"])
@pytest.mark.parametrize(
    ("name", "high"),
    [("iris_4-5-5-3", 1.0), ("sd_10-15-10-3", 0.1), ("sd_10-20-15-10-3", 0.1)],
)
def test_lipbab_networks_vector_valued(shared, published, name, high, norm):
    network, _ = read(shared, f"lipbab_{name}")
    problem = LipschitzProblem(network, Box(0.0, high, network.input_dim), norm, norm)
    value = published[f"lipbab_{name}"]["exact"][f"{norm}->{norm}"]
    assert exact(problem) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["chen_10_12", "chen_20_24"])
def test_chen_networks_local(shared, published, name, seed):
    network, data = read(shared, f"{name}_seed{seed}")
    value = published[f"{name}_seed{seed}"]["exact_local"]
    found = exact(LipschitzProblem(network, Box(data["lo"], data["hi"])))
    assert f"{found:.4f}" == f"{value:.4f}"


def test_lipmip_cube(shared, published):
    """CPLEX takes a quarter of the time of HiGHS.  Branch and bound has the square, too."""
    pytest.importorskip("cplex")
    name = "lipmip_A_16-16-16-2_cube_s0"
    network, data = read(shared, name)
    found = exact(
        LipschitzProblem(network, Box(data["lo"], data["hi"]), functional=data["c"]), "cplex"
    )
    assert found == pytest.approx(published[name]["exact"]["linf->|.|"], rel=1e-6)
