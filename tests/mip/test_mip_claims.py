"""What a solver claims is checked: confirmed, refuted, or left open, whatever it says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Polytope, Settings, Status
from lipyomo.methods.bnb import search
from lipyomo.methods.mip import accept
from lipyomo.mip.claims import Claim
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.run import Run
from networks import random_network

LIARS = '''
"""HiGHS, but for its dual bound."""

import math
from dataclasses import replace

from lipyomo.solvers.highs import Highs
from lipyomo.solvers.status import SolveStatus


class Low(Highs):
    def run(self, model, request):
        return replace(super().run(model, request), x=None, bound=0.5)


class Empty(Highs):
    def run(self, model, request):
        found = super().run(model, request)
        return replace(found, status=SolveStatus.INFEASIBLE, x=None, bound=math.inf)


class Broken(Highs):
    def run(self, model, request):
        found = super().run(model, request)
        return replace(found, status=SolveStatus.ERROR, x=None, message="it broke")


class Stubborn(Highs):
    said = {}

    def run(self, model, request):
        """Its first answer to models with the same columns, whatever rows are added."""
        return self.said.setdefault(model.size[1], super().run(model, request))
'''


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings with solvers that say what is not true."""
    folder = tmp_path_factory.mktemp("liars")
    (folder / "lying_solvers.py").write_text(LIARS)
    sys.path.insert(0, str(folder))
    path = folder / "solvers.toml"
    lines = [
        f'[solver.{name.lower()}]\nbackend = "lying_solvers:{name}"'
        for name in ("Low", "Empty", "Broken", "Stubborn")
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def easy() -> LipschitzProblem:
    return LipschitzProblem(random_network(7, (4, 6, 5, 1)), Box(-1, 1, 4))


@pytest.mark.parametrize("name", ["low", "empty", "broken"])
def test_a_solver_that_is_wrong_is_named_and_the_search_goes_on(
    name: str, easy: LipschitzProblem, liars: Path
) -> None:
    truth = lipyomo.solve(easy, "bnb")
    result = lipyomo.solve(easy, "mip", solver=name, solvers_file=liars)
    assert result.status is Status.EXACT
    assert result.basis == "proved"
    assert result.lower == pytest.approx(truth.lower, rel=2e-6)
    assert any(f"{name}" in note and "not used" in note for note in result.warnings)
    assert not any("defect" in note for note in result.warnings)


def claim_of(upper: float) -> Claim:
    return Claim(upper, "oracle", "solver (oracle)", seconds=100.0)


def test_a_claim_that_is_confirmed_is_proved(easy: LipschitzProblem) -> None:
    truth = lipyomo.solve(easy, "bnb")
    run = Run(easy, Settings(), "mip")
    run.raise_lower(truth.witness)
    assert accept(run, claim_of(truth.lower * (1 + 2e-7)))
    result = run.result()
    assert result.status is Status.EXACT
    assert result.basis == "proved"
    assert result.warnings == []


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("share", [0.5, 0.99, 1 - 1e-5])
def test_a_claim_that_is_refuted_is_dropped(
    easy: LipschitzProblem, share: float, known: bool
) -> None:
    truth = lipyomo.solve(easy, "bnb")
    run = Run(easy, Settings(), "mip")
    if known:
        run.raise_lower(truth.witness)
    closed = accept(run, claim_of(share * truth.lower))
    assert closed == run.closed
    assert run.upper >= truth.lower
    result = run.result()
    assert any("oracle claims" in note and "not used" in note for note in result.warnings)
    assert not any("defect" in note for note in result.warnings)


def test_a_claim_may_be_left_unchecked(easy: LipschitzProblem) -> None:
    taken = lipyomo.solve(easy, "mip", solver="highs", check_claims=False)
    assert taken.status is Status.EXACT
    assert taken.basis is not None
    assert taken.basis.startswith("solver (highs")
    run = Run(easy, Settings(check_claims=False), "mip")
    doubted = Claim(3.0, "oracle", "solver (oracle)", 100.0, "the model has ranges of 1e-9 near 1")
    assert accept(run, doubted)
    assert run.upper > 3.0
    assert any("not used" in note for note in run.result().warnings)


def test_no_word_is_taken_where_ranges_are_near_a_tolerance() -> None:
    network = random_network(3, (3, 6, 6, 1))
    row = [1.0, 0.5, -1.0]
    slab = Polytope([row, [-v for v in row]], [1e-9, 0.0], -1, 1)
    problem = LipschitzProblem(network, slab)
    taken = lipyomo.solve(problem, "mip", solver="highs", check_claims=False, time_limit=20)
    assert taken.basis == "proved"
    if taken.details["models"]:
        assert taken.status is not Status.EXACT
        assert any("not used" in note for note in taken.warnings)
    checked = lipyomo.solve(problem, "mip", solver="highs", time_limit=20)
    assert checked.basis == "proved"
    assert checked.lower <= taken.upper
    assert taken.lower <= checked.upper


@pytest.mark.parametrize("seed", [4, 14, 23])
def test_a_kink_on_a_face_of_the_box_is_no_reason_to_give_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of 1e-15 near 1 puts the solver's word in doubt; branch and bound decides."""
    monkeypatch.setattr("lipyomo.methods.mip.MOMENT", 0.0)
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    W, b = rng.normal(size=(n, d)), rng.normal(size=n)
    if seed != 4:  # a face, else a corner
        W[0] = np.eye(d)[0]
    b[0] = -np.abs(W[0]).sum()
    V = rng.normal(size=(1, n))
    network = Network.from_arrays([W, V], [b, np.zeros(1)])
    if seed != 23:  # the same function, with roundings that leave a trace of the kink in the box
        shift = np.full(d, 3.0)
        network = Network.from_arrays([np.eye(d), W, V], [shift, b - W @ shift, np.zeros(1)])
    problem = LipschitzProblem(network, Box(-1, 1, d))
    found = lipyomo.solve(problem, "mip", solver="highs")
    assert (found.status, found.basis) == (Status.EXACT, "proved")
    assert found.lower == pytest.approx(lipyomo.solve(problem, "bnb").upper, rel=2e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_search_proves_what_it_is_asked_to(easy: LipschitzProblem, threads: int) -> None:
    truth = lipyomo.solve(easy, "bnb")
    full, quick, low = (Run(easy, Settings(workers=threads), "bnb") for _ in range(3))
    search(full)
    search(quick, 1.2 * truth.upper)
    assert truth.lower <= quick.upper <= 1.2 * truth.upper
    assert (quick.nodes or 0) < (full.nodes or 0)
    search(low, 0.5 * truth.lower)
    assert low.upper >= truth.lower
    assert low.lower == pytest.approx(truth.lower, rel=1e-9)


def test_a_solver_that_ignores_cuts_is_not_believed(liars: Path) -> None:
    # relu(x + y) - relu(x) - relu(y): where only the first is on, x = y = 0, it would be steepest
    kinks = Layer([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], np.zeros(3), 0.0, 1.0)
    network = Network([kinks, Layer([[1.0, -1.0, -1.0]], [0.0])])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    found = lipyomo.solve(
        problem, "mip", solver="stubborn", solvers_file=liars, options={"partition": False}
    )
    assert (found.lower, found.status) == (1.0, Status.EXACT)
    assert any("stubborn" in note and "not used" in note for note in found.warnings)
