"""Upper ends of deep networks are proved layer by layer, and what is not true is rejected."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from lipyomo import AllSpace, LipschitzProblem, Network, solve
from lipyomo.proofs import write_proof
from lipyomo_check import ProofError, check_proof
from networks import random_network

Norm = Literal["l2", "linf"]


def problem_of(norm: Norm, inputs: int = 40) -> LipschitzProblem:
    """Deep enough that one matrix is dearer."""
    network = random_network(0, (inputs, *(40,) * 14, 2))
    return LipschitzProblem(network, AllSpace(inputs), norm, norm)


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A proof of each kind."""
    folder, found = tmp_path_factory.mktemp("proofs"), {}
    for name, norm, inputs in (("l2", "l2", 40), ("linf", "linf", 40), ("wide", "l2", 90)):
        problem = problem_of(norm, inputs)
        result = solve(problem, "sdp", time_limit=0.6)
        found[name] = folder / f"{name}.proof"
        written = write_proof(found[name], problem, result, time_limit=20.0)
        assert written.cases == 1
        assert written.upper is not None
        assert result.upper < written.upper * (1 + 1e-15) < result.upper * (1 + 1e-6)
    return found


def write(path: Path, *lines: Any) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=1))


@pytest.fixture(scope="module")
def loose(proofs: dict[str, Path]) -> dict[str, Path]:
    """The same with lower ends that no lie about the upper end contradicts; they hold, too."""
    found = {}
    for name, proof in proofs.items():
        first, steps = lines_of(proof)
        first |= {"lower": 0.0, "witness": {"x": first["witness"]["x"]}}
        found[name] = proof.with_suffix(".loose")
        write(found[name], first, steps)
        assert check_proof(found[name]).upper_proved
    return found


def lines_of(path: Path) -> list[Any]:
    with gzip.open(path, "rt") as stream:
        return [json.loads(line) for line in stream]


@pytest.mark.parametrize("kind", ["l2", "linf", "wide"])
def test_layered_proofs_are_accepted(proofs: dict[str, Path], kind: str) -> None:
    _, steps = lines_of(proofs[kind])
    assert [step[0] for step in steps] == ["layers"] * (len(steps) - 1) + ["end"]
    verdict = check_proof(proofs[kind])
    assert verdict.upper_proved
    assert verdict.nodes == 1


def lower_end(first: Any, step: Any) -> None:
    first["upper"] *= 0.5


def small_multiplier(first: Any, step: Any) -> None:
    step[3][17] = 1


def large_multiplier(first: Any, step: Any) -> None:
    step[3][17] *= 10**30


def less_zeta(first: Any, step: Any) -> None:
    step[2][0] = 1


def zero_multiplier(first: Any, step: Any) -> None:
    step[3][0] = 0


def fewer_multipliers(first: Any, step: Any) -> None:
    step[3].pop()


def steeper_weight(first: Any, step: Any) -> None:
    rows = first["network"][3]["weight"]
    first["network"][3]["weight"] = [[1.1 * v for v in row] for row in rows]


LIES = [
    *(lower_end, small_multiplier, large_multiplier, less_zeta),
    *(zero_multiplier, fewer_multipliers, steeper_weight),
]


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_true_is_rejected(
    loose: dict[str, Path], tmp_path: Path, lie: Callable[[Any, Any], None]
) -> None:
    kind = ("l2", "linf", "wide")[LIES.index(lie) % 3]
    first, steps = lines_of(loose[kind])
    lie(first, steps[0])
    write(tmp_path / "lie", first, steps)
    with pytest.raises(ProofError):
        check_proof(tmp_path / "lie")


def test_smooth_deep_networks_have_layered_proofs(tmp_path: Path) -> None:
    """All of R^d: slopes of tanh are anywhere in [0, 1]."""
    rng = np.random.default_rng(0)
    sizes = (40, *(40,) * 14, 2)
    weights = [rng.standard_normal((n, k)) / np.sqrt(k) for k, n in itertools.pairwise(sizes)]
    network = Network.from_arrays(weights, [np.zeros(n) for n in sizes[1:]], activation="tanh")
    problem = LipschitzProblem(network, AllSpace(40), "l2", "l2")
    result = solve(problem, "bnb", time_limit=1.5)
    written = write_proof(tmp_path / "proof", problem, result, time_limit=20.0)
    assert written.upper is not None
    assert written.upper < 1.001 * result.upper
    assert lines_of(tmp_path / "proof")[1][0][0] == "layers"
    assert check_proof(tmp_path / "proof").upper_proved
