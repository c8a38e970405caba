"""Searches and proofs of small problems stay what they were, step by step.

Kernels for other processors round otherwise, and a search that rounds otherwise takes other steps.
So all of them run in a process with the kernels that every x86 processor since Haswell has, where
nodes, counters and the proof to the byte are what was recorded; elsewhere, and with another NumPy,
the ends of closed intervals are.  After a change that is meant to change them,
``PYTHONPATH=tests python tests/search/test_pinned.py`` records them anew, on any such processor.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import lipyomo
from lipyomo.base.system.parallel import InlineExecutor
from lipyomo.problems.domains import AllSpace, Box, Polytope, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.proofs.writing import write_proof
from networks import integer_network, mixed_network, random_network

RECORDED = Path(__file__).with_name("pinned.json")


def _ball(center: list[float], radius: float, norm: str) -> Callable[[], LipschitzProblem]:
    network = mixed_network(31, (4, 8, 6, 2))
    return lambda: LipschitzProblem(network, ball(center, radius, norm), norm, "linf")


def _cube(
    seed: int, sizes: tuple[int, ...], output: str = "linf", side: float = 1.0, norm: str = "linf"
) -> Callable[[], LipschitzProblem]:
    return lambda: LipschitzProblem(
        random_network(seed, sizes), Box(0, side, sizes[0]), norm, output
    )


def _features() -> LipschitzProblem:
    """Many units that see five features of 300 inputs."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((5, 300)) / 20.0
    first = rng.standard_normal((40, 5)) @ features
    second, last = rng.standard_normal((12, 40)) / 12.0, rng.standard_normal((1, 12))
    center = rng.uniform(0.0, 1.0, 300)
    biases = [0.1 * rng.standard_normal(40) - first @ center, np.zeros(12), np.zeros(1)]
    network = lipyomo.Network.from_arrays([first, second, last], biases)
    return LipschitzProblem(network, Box(center - 0.03, center + 0.03), "linf", "linf")


def _frozen() -> LipschitzProblem:
    low, high = np.zeros(6), np.ones(6)
    low[[1, 4]] = high[[1, 4]] = 0.5
    return LipschitzProblem(random_network(5, (6, 10, 8, 2)), Box(low, high), "linf", "cross")


def _functional() -> LipschitzProblem:
    return LipschitzProblem(random_network(0, (8, 10, 10, 2)), Box(0, 1, 8), functional=[1.0, -1.0])


def _polytope() -> LipschitzProblem:
    A = np.random.default_rng(3).standard_normal((6, 4))
    return LipschitzProblem(
        random_network(4, (4, 9, 8, 2)), Polytope(A, np.ones(6), -np.ones(4), np.ones(4))
    )


def _decided() -> LipschitzProblem:
    """Most units are decided by the domain: the search lives in the presolved network."""
    center = np.random.default_rng(8).standard_normal(10)
    network = random_network(7, (10, 120, 100, 3))
    return LipschitzProblem(network, Box(center - 0.05, center + 0.05), "linf", "linf")


def _all_space() -> LipschitzProblem:
    return LipschitzProblem(mixed_network(12, (4, 7, 6, 2)), AllSpace(4), "l2", "l2")


CASES: dict[str, Callable[[], LipschitzProblem]] = {
    "cross": _cube(1, (8, 10, 10, 2), "cross"),
    "functional": _functional,
    "l2 to l2": _cube(2, (6, 9, 9, 3), "l2", norm="l2"),
    "l1 to l2": _cube(2, (5, 8, 7, 3), "l2", norm="l1"),
    "l1 to linf": _cube(3, (6, 9, 9, 2), norm="l1"),
    "linf to l1": _cube(4, (6, 9, 8, 3), "l1"),
    "l2 to l1": _cube(4, (6, 9, 8, 3), "l1", norm="l2"),
    "linf to l2": _cube(5, (4, 8, 7, 2), "l2"),
    "halved boxes": _cube(6, (2, 14, 12, 2), "cross", norm="linf"),
    "halved boxes, l2": _cube(9, (3, 12, 10, 2), norm="l2"),
    "deep": _cube(7, (6, 7, 7, 7, 2)),
    "deep, scalar": _cube(8, (8, 9, 9, 9, 1)),
    "l2 ball": _ball([0.2] * 4, 0.8, "l2"),
    "l1 ball": _ball([0.2] * 4, 0.8, "l1"),
    "polytope": _polytope,
    "all space": _all_space,
    "all space, linf": lambda: LipschitzProblem(random_network(3, (3, 8, 7, 1)), AllSpace(3)),
    "integers": lambda: LipschitzProblem(integer_network(4, (4, 8, 8, 2)), Box(-1, 1, 4)),
    "frozen inputs": _frozen,
    "stable units": _decided,
    "features": _features,
}

OTHERWISE: dict[str, dict[str, Any]] = {
    "features": {"gap": 0.4},
    "cross, gap": {"gap": 0.05},
    "cross, seed": {"seed": 3},
    "cross, two workers": {"threads": 2, "executor": InlineExecutor()},
    "deep, scalar, two workers": {"threads": 2, "executor": InlineExecutor()},
}
"""Settings that are not the usual ones, by the name of a case and what follows it."""

NAMES = list(dict.fromkeys([*CASES, *OTHERWISE]))

WITHOUT_PROOF = {"features", "stable units", "deep, scalar", "l2 to l1"}
"""Their proofs take longer than the rest together."""


def _simd() -> list[str]:
    """The sets of instructions that NumPy makes use of."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    return [*found.get("baseline", ()), *found.get("found", ())]


def _machine() -> str:
    """What rounds the same way."""
    blas = sorted({(i["internal_api"], i.get("architecture")) for i in threadpool_info()})
    return f"numpy {np.__version__.split('.')[:2]} {' '.join(_simd())} {blas}"


@contextmanager
def _usual_kernels() -> Iterator[Executor]:
    """A process in which BLAS and NumPy use no instructions that Haswell has not."""
    wider = [name for name in _simd() if "512" in name or name == "X86_V4"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_CORETYPE", "Haswell")
        patch.setenv("NPY_DISABLE_CPU_FEATURES", " ".join(wider))
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            process.submit(_machine).result()  # the process reads the variables as it begins
            yield process


def measured(name: str, folder: Path) -> dict[str, Any]:
    """What a case is compared by."""
    case = name if name in CASES else max((c for c in CASES if name.startswith(c)), key=len)
    problem = CASES[case]()
    result = lipyomo.solve(problem, "bnb", **OTHERWISE.get(name, {}))
    found = {"lower": result.lower, "upper": result.upper, "status": str(result.status)}
    exact = {"nodes": result.nodes, **result.details}
    if name in CASES and name not in WITHOUT_PROOF:
        path = folder / "proof"
        exact["cases"] = write_proof(path, problem, result).cases
        exact["proof"] = hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()[:16]
    return {**found, "here": json.loads(json.dumps(exact))}


@pytest.fixture(scope="module")
def process() -> Iterator[Executor]:
    with _usual_kernels() as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_a_search_is_what_it_was(name: str, tmp_path: Path, process: Executor) -> None:
    recorded = json.loads(RECORDED.read_text())
    before, now = recorded["cases"][name], process.submit(measured, name, tmp_path).result()
    assert now["status"] == before["status"]
    closed = "gap" not in OTHERWISE.get(name, {})  # one that is left depends on rounding
    if closed:
        assert now["lower"] == pytest.approx(before["lower"], rel=1e-9)
        assert now["upper"] == pytest.approx(before["upper"], rel=1e-7)
    if process.submit(_machine).result() != recorded["machine"]:
        return
    if closed:
        assert (now["lower"], now["upper"]) == (before["lower"], before["upper"])
        assert now["here"] == before["here"]
    else:
        assert now["here"] == pytest.approx(before["here"], rel=1e-9)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place, _usual_kernels() as made:
        cases = {name: made.submit(measured, name, Path(place)).result() for name in NAMES}
        known = {"machine": made.submit(_machine).result(), "cases": cases}
    RECORDED.write_text(json.dumps(known, indent=1) + "\n")
