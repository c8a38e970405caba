"""Published and recomputed values of other groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lipyomo import AllSpace, Box, LipschitzProblem, solve
from references import load_reference


def load(shared: Path, name: str, local: bool = True, **norms: object) -> LipschitzProblem:
    known = load_reference(shared / "reference" / f"{name}.npz")
    domain = known.box if local else AllSpace(known.network.input_dim)
    if "c" in known.arrays:
        norms.setdefault("functional", known.functional)
    return LipschitzProblem(known.network, domain, **norms)  # type: ignore[arg-type]


def published(shared: Path, name: str) -> dict[str, dict[str, float]]:
    return json.loads((shared / "reference" / "values.json").read_text())[name]


SMALL = [f"chen_{size}_seed{seed}" for size in ("10_12", "20_24") for seed in range(5)]


@pytest.mark.reference
@pytest.mark.parametrize("name", [*SMALL, "chen_80_80_seed0"])
@pytest.mark.parametrize("place", ["local", "global"])
def test_shor_is_the_published_one(shared: Path, name: str, place: str) -> None:
    value = solve(load(shared, name, place == "local"), "shor", attain=False).upper
    assert value == pytest.approx(published(shared, name)[place]["shor"], rel=1e-4)


@pytest.mark.reference
@pytest.mark.parametrize("name", [*SMALL, "chen_80_80_seed0"])
def test_hr2_is_at_least_as_tight_as_published(shared: Path, name: str) -> None:
    # the published programs put moment matrices where the exact hulls are used here; their
    # solutions differ from the optimum by up to 5e-4
    known = published(shared, name)["local"]
    value = solve(load(shared, name), "hr2", attain=False).upper
    assert value <= known["hr2"] * (1 + 1e-4)
    assert value >= known["hr2"] * (1 - 1e-3)
    assert value >= known["lbs"] * (1 - 1e-7)  # single precision, once above the constant


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "place"),
    [*((name, "local") for name in SMALL), *((name, "global") for name in SMALL[:5])],
)
def test_lipopt3_is_at_least_as_tight_as_published(shared: Path, name: str, place: str) -> None:
    known = published(shared, name)[place]
    value = solve(
        load(shared, name, place == "local"), "lipopt", options={"k": 3}, attain=False
    ).upper
    assert value <= known["lipopt3"] * (1 + 2e-4)  # one published value is below lbs
    assert value >= known["lbs"] * (1 - 1e-6)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("form", "value"),
    [("neuron", 36.482229596), ("network", None)],  # by layers: below
)
def test_lipsdp_random(shared: Path, form: str, value: float | None) -> None:
    problem = load(shared, "lipsdp_random", False, norm="l2", output_norm="l2")
    if value is None:
        from lipyomo.base.errors import MethodError

        with pytest.raises(MethodError, match="neuron, layer"):
            solve(problem, "lipsdp", options={"form": form})
        return
    options = {"form": form, "slopes": "global"}
    found = solve(problem, "lipsdp", options=options, attain=False).upper
    assert found == pytest.approx(value, rel=1e-5)
    assert found >= published(shared, "lipsdp_random")["true"]


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "solver", "value"),
    [("neuron", "newton", 24.36635), ("layer", "scs", 26.25597)],
)
def test_lipsdp_mnist(shared: Path, form: str, solver: str, value: float) -> None:
    problem = load(shared, "lipsdp_mnist", False, norm="l2", output_norm="l2")
    found = solve(problem, "lipsdp", options={"form": form, "solver": solver}, attain=False).upper
    assert found == pytest.approx(value, rel=1e-5)


@pytest.mark.reference
def test_fastlip_and_naive(shared: Path) -> None:
    problem = load(shared, "lipmip_A_16-16-16-2_cube_s0")
    assert solve(problem, "fastlip", attain=False).upper == pytest.approx(79.51, abs=0.01)
    exact = 24.512032958761417
    assert solve(problem, "local_search").lower == pytest.approx(exact, rel=1e-9)
    assert solve(problem, "hr1", attain=False).upper >= exact


@pytest.mark.reference
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_bounds_hold_the_constants_of_lipbab(shared: Path, norm: str) -> None:
    exact = published(shared, "lipbab_iris_4-5-5-3")["exact"][f"{norm}->{norm}"]
    network = load_reference(shared / "reference" / "lipbab_iris_4-5-5-3.npz").network
    problem = LipschitzProblem(network, Box(0.0, 1.0, 4), norm, norm)
    assert solve(problem, "local_search").lower == pytest.approx(exact, rel=1e-9)
    for method in ("lipsdp", "eclipse", "naive", "fastlip"):
        assert solve(problem, method, attain=False).upper >= exact * (1 - 1e-12)
