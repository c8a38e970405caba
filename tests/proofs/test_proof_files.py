"""Proof files: made for every domain and norm, accepted if true, rejected if changed to a lie."""

from __future__ import annotations

import ast
import copy
import gc
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lipyomo
import lipyomo_check
from lipyomo import AllSpace, Box, LipschitzProblem, Network, Polytope, ball
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.base.errors import ProofError as CannotProve
from lipyomo.base.system.parallel import InlineExecutor
from lipyomo.networks.network import Layer
from lipyomo.proofs import Written, network_digest, write_proof
from lipyomo.proofs.case import Case
from lipyomo_check import ProofError, check_proof
from networks import integer_network, mixed_network, random_network
from oracle import exact_constant

DOMAINS = {
    "box": Box(-1.0, 1.0, 2),
    "frozen": Box([0.1, -1.0], [0.1, 1.0]),
    "l1": ball([0.2, -0.1], 0.7, "l1"),
    "l2": ball([0.2, -0.1], 0.7, "l2"),
    "clipped": ball([0.2, -0.1], 0.7, "l2", (-0.5, 0.5)),
    "polytope": Polytope([[1.0, 1.0], [-1.0, 2.0]], [0.8, 1.0], -1.0, 1.0),
    "all": AllSpace(2),
    "slab": Box([-1.0, -np.inf], [1.0, np.inf]),
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "functional": {"functional": [1.0, -0.5]},
    "linf": {"output_norm": "linf"},
    "l1": {"output_norm": "l1"},
    "l2": {"output_norm": "l2"},
    "cross": {"output_norm": "cross"},
    "cross(1)": {"margin": 1},
}


def proved(problem: LipschitzProblem, path: Path) -> lipyomo_check.Verdict:
    result = lipyomo.solve(problem)
    assert result.is_exact
    write_proof(path, problem, result)
    verdict = check_proof(path, digest=network_digest(problem.network))
    assert verdict.upper_proved
    assert verdict.statement.digest == network_digest(problem.network)
    assert verdict.statement.upper <= result.upper * (1 + 1e-11)
    assert verdict.statement.lower >= result.lower * (1 - 1e-9)
    return verdict


PAIRED = "box", "frozen", "l1", "l2", "polytope", "all"
"""Domains that `test_output_norms_on_every_domain` pairs with input and output norms."""


@pytest.mark.parametrize(
    ("domain", "input_norm"),
    [
        (domain, norm)
        for i, domain in enumerate(DOMAINS)
        for j, norm in enumerate(("linf", "l1", "l2"))
        if domain not in PAIRED or i % 3 == j
    ],
)
def test_every_domain_and_input_norm(domain: str, input_norm: str, tmp_path: Path) -> None:
    network = mixed_network(3, (2, 3, 3, 2))
    problem = LipschitzProblem(network, DOMAINS[domain], input_norm, functional=[1.0, -1.0])
    proved(problem, tmp_path / "p")


@pytest.mark.parametrize("output", ["functional", "l1", "cross(1)"])  # the others: below
@pytest.mark.parametrize("input_norm", ["linf", "l1", "l2"])
def test_every_output_norm(output: str, input_norm: str, tmp_path: Path) -> None:
    problem = LipschitzProblem(
        random_network(5, (2, 5, 3, 2)), DOMAINS["box"], input_norm, **OUTPUTS[output]
    )
    proved(problem, tmp_path / "p")


@pytest.mark.parametrize(
    ("domain", "output", "seed"),  # all pairs with input norms as well, not all triples
    [
        (domain, output, (i + j) % 3)
        for i, domain in enumerate(PAIRED)
        for j, output in enumerate(("l2", "linf", "cross"))
    ],
)
def test_output_norms_on_every_domain(domain: str, output: str, seed: int, tmp_path: Path) -> None:
    network, norm = mixed_network(seed, (2, 3, 2, 3)), ("linf", "l1", "l2")[seed]
    proved(LipschitzProblem(network, DOMAINS[domain], norm, output), tmp_path / "p")


def test_the_euclidean_norm_over_a_cube(tmp_path: Path) -> None:
    """Full patterns are closed at the cube's corners: multipliers leave a gap there."""
    problem = LipschitzProblem(random_network(0, (4, 6, 5, 3)), Box(-1.0, 1.0, 4), "linf", "l2")
    proved(problem, tmp_path / "p")


@pytest.mark.parametrize("inputs", [3, 20])
def test_two_outputs_over_a_cube_have_a_polygon_of_images(inputs: int, tmp_path: Path) -> None:
    network = random_network(0, (inputs, 6, 5, 2))
    problem = LipschitzProblem(network, Box(-1.0, 1.0, inputs), "linf", "l2")
    proved(problem, tmp_path / "p")


def test_many_outputs_over_a_large_cube_are_proved_as_far_as_they_are_known(tmp_path: Path) -> None:
    network = random_network(0, (20, 6, 5, 3))
    problem = LipschitzProblem(network, Box(-1.0, 1.0, 20), "linf", "l2")
    result = lipyomo.solve(problem, gap=0.1)
    assert 0.0 < result.lower < result.upper
    write_proof(tmp_path / "p", problem, result)
    assert check_proof(tmp_path / "p").upper_proved
    tight = lipyomo.solve(problem)  # single pieces, whose norms need the cube's corners
    if tight.is_exact:
        with pytest.raises(CannotProve, match="corners"):
            write_proof(tmp_path / "q", problem, tight)


def test_several_processes_check_the_same(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network(8, (2, 8, 6, 2)), DOMAINS["box"], "linf", "linf")
    alone = proved(problem, tmp_path / "p")
    told: list[int] = []
    together = check_proof(tmp_path / "p", progress=told.append, workers=2)
    assert together.nodes == alone.nodes == told[-1]


@pytest.mark.parametrize("workers", [0, -1])
def test_somebody_has_to_check(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ValueError, match=f"workers={workers}: at least one"):
        check_proof(tmp_path / "p", workers=workers)


def test_a_file_that_is_swapped_meanwhile_is_checked_as_it_was(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network(8, (2, 8, 6, 2)), DOMAINS["box"], "linf", "linf")
    alone = proved(problem, tmp_path / "p")

    class Swapping(InlineExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            (tmp_path / "p").write_bytes(b"another file")
            return super().submit(fn, *args, **kwargs)

    with Swapping() as executor:
        verdict = check_proof(tmp_path / "p", workers=2, executor=executor)
    assert (verdict.upper_proved, verdict.nodes) == (True, alone.nodes)


def test_a_stopped_proof_is_one_of_the_lower_end(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network(5, (2, 5, 3, 2)), DOMAINS["box"])
    result = lipyomo.solve(problem)
    for given in ({"stop": lambda: True}, {"time_limit": 0.0}):
        found = write_proof(tmp_path / "p", problem, result, **given)
        assert found == Written(0, None)
        verdict = check_proof(tmp_path / "p")
        assert not verdict.upper_proved
        assert "not written to its end" in verdict.basis
        assert found.basis == verdict.basis
    for wrong in ({"time_limit": float("nan")}, {"result": None}, {"problem": result}):
        with pytest.raises(lipyomo.LipyomoError, match=r"the (time limit|result|problem)"):
            write_proof(**{"path": tmp_path / "q", "problem": problem, "result": result} | wrong)
    assert not (tmp_path / "q").exists()


def test_paths_may_be_texts(tmp_path: Path) -> None:
    path, file = str(tmp_path / "p"), str(tmp_path / "n.onnx")
    lipyomo.to_onnx(random_network(8, (2, 4, 1)), file)
    problem = LipschitzProblem(lipyomo.load(file), DOMAINS["box"])
    write_proof(path, problem, lipyomo.solve(problem), file)
    assert check_proof(path, file).upper_proved


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_proof_that_is_stopped_later_has_the_upper_end_of_the_whole_domain(
    norm: str, tmp_path: Path
) -> None:
    """Whenever that is, what is written can be checked."""
    problem = LipschitzProblem(random_network(8, (2, 8, 6, 2)), DOMAINS["box"], norm, "linf")
    result = lipyomo.solve(problem)
    uppers = set()
    for most in (0, 1, 2, 3, 5, 8, 13, 21, 34, 10_000):
        polls = iter(range(most))
        written = write_proof(
            tmp_path / "p", problem, result, stop=lambda polls=polls: next(polls, None) is None
        )
        verdict = check_proof(tmp_path / "p")
        assert verdict.upper_proved == (written.upper is not None)
        assert verdict.nodes == written.cases
        if written.upper is not None:
            assert verdict.statement.upper == written.upper >= result.upper
            uppers.add(round(written.upper / result.upper, 6))
    assert min(uppers) == 1.0
    assert max(uppers) > 1.01


def test_sparse_weights_are_written_as_they_are(tmp_path: Path) -> None:
    """Zeros that are stored among them are left out, and the network stays what it is."""
    plain = integer_network(2, (3, 5, 4, 2))
    layers = [
        Layer(_with_zeros(layer.dense_weight), layer.bias, layer.left, layer.right)
        for layer in plain.layers
    ]
    problem = LipschitzProblem(Network(layers), Box(-1.0, 1.0, 3), "linf", "linf")
    before = [layer.weight.copy() for layer in problem.network.layers]
    verdict = proved(problem, tmp_path / "p")
    assert verdict.statement.upper == pytest.approx(exact_constant(problem), rel=1e-6)
    for weight, layer in zip(before, problem.network.layers, strict=True):
        assert weight.nnz == layer.weight.nnz
        assert (weight != layer.weight).nnz == 0


def _with_zeros(weight: FloatArray) -> sp.csr_array:
    """All entries of a matrix, stored."""
    units, inputs = weight.shape
    places = np.tile(np.arange(inputs), units), np.arange(0, weight.size + 1, inputs)
    return sp.csr_array((weight.reshape(-1), *places), shape=weight.shape)


@pytest.mark.parametrize("seed", range(4))
def test_degenerate_networks(seed: int, tmp_path: Path) -> None:
    problem = LipschitzProblem(integer_network(seed, (2, 4, 3, 1)), Box(-1.0, 1.0, 2))
    result = lipyomo.solve(problem)
    if result.witness is None:
        with pytest.raises(CannotProve):
            write_proof(tmp_path / "p", problem, result)
        return
    verdict = proved(problem, tmp_path / "p")
    assert verdict.statement.upper >= exact_constant(problem) * (1 - 1e-9)


def test_the_checker_imports_nothing_of_the_library() -> None:
    for path in Path(lipyomo_check.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] not in ("lipyomo", "numpy", "scipy", "highspy"), path


# -- lies ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def true_lines(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """A proof with splits, multipliers and refuted cases, as JSON values."""
    path = tmp_path_factory.mktemp("proofs") / "p"
    problem = LipschitzProblem(
        random_network(8, (2, 5, 4, 2)), Box(-1.0, 1.0, 2), functional=[1.0, -1.0]
    )
    proved(problem, path)
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def accepted(lines: list[Any], path: Path) -> bool:
    text = "\n".join(json.dumps(line) for line in lines) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 1))
    try:
        check_proof(path)
    except ProofError:
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all scalars."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    else:
        yield path


def changed(lines: list[Any], path: tuple[Any, ...], change: Any) -> list[Any]:
    made = copy.deepcopy(lines)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place[path[-1]])
    return made


def truth_of(first: dict[str, Any]) -> float:
    """The true constant of the problem that a first line states."""
    layers = [
        lipyomo.Layer(v["weight"], v["bias"], v["left"], v["right"]) for v in first["network"]
    ]
    low, high = ([float(v) for v in first["domain"][side]] for side in ("lower", "upper"))
    problem = LipschitzProblem(
        lipyomo.Network(layers),
        Box(low, high),
        first["input_norm"],
        functional=first["output_norm"]["vertices"][0],
    )
    return exact_constant(problem)


NUMBERS = [
    lambda v: -v,
    lambda v: v * 1.01 + 0.001,
    lambda v: v * 0.99,
    lambda v: math.nextafter(v, math.inf),
    lambda v: v + 1,
    lambda v: 1e90,
]
OTHERS = [
    lambda v: None,
    lambda v: "x",
    lambda v: [],
    lambda v: {},
    lambda v: 10**30,
    lambda v: True,
    lambda v: 1e308,
    lambda v: -1,
]


def test_no_changed_number_makes_a_false_statement_pass(
    true_lines: list[Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    everywhere = list(places(true_lines))
    chosen = [everywhere[k] for k in rng.choice(len(everywhere), 60, replace=False)]
    chosen += [path for path in everywhere if path[0] == 0 and path[1] != "network"]
    passed = 0
    for path in chosen:
        value: Any = true_lines
        for key in path:
            value = value[key]
        number = isinstance(value, float | int)
        change = NUMBERS[int(rng.integers(len(NUMBERS)))] if number else OTHERS[0]
        made = changed(true_lines, path, change)
        if accepted(made, tmp_path / "p"):
            passed += 1
            try:
                truth = truth_of(made[0])
            except ProblemError:  # beyond the numbers that the package takes
                continue
            assert made[0]["lower"] <= truth * (1 + 1e-7), path
            assert made[0]["upper"] >= truth * (1 - 1e-7), path
    assert passed < len(chosen)


def test_nothing_but_a_proof_error_is_raised(true_lines: list[Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    everywhere = list(places(true_lines))
    for number, k in enumerate(rng.choice(len(everywhere), 64, replace=False)):
        path = everywhere[k]
        if rng.random() < 0.3 and len(path) > 1:
            path = path[:-1]
        accepted(changed(true_lines, path, OTHERS[number % len(OTHERS)]), tmp_path / "p")


def test_missing_doubled_and_reordered_cases(true_lines: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "p"
    first, *cases = true_lines
    assert accepted([first, *cases], path)
    assert len(cases) > 2
    for k in range(len(cases)):
        assert not accepted([first, *cases[:k], *cases[k + 1 :]], path)
        assert not accepted([first, *cases[:k], cases[k], *cases[k:]], path)
    assert not accepted([first], path)
    assert not accepted([*cases, first], path)
    assert not accepted([first, *cases, [["end"]]], path)
    assert not accepted([first, [["end"]]], path)


def test_a_smaller_upper_end_is_rejected(true_lines: list[Any], tmp_path: Path) -> None:
    first, *cases = true_lines
    for factor in (0.5, 0.9, 0.999):
        lie = first | {"lower": 0.0, "upper": first["upper"] * factor}
        assert not accepted([lie, *cases], tmp_path / "p")


def test_another_norm_is_rejected(true_lines: list[Any], tmp_path: Path) -> None:
    first, *cases = true_lines
    stronger = copy.deepcopy(first)
    stronger["output_norm"] = {"vertices": [[3.0, -3.0]]}
    assert not accepted([stronger, *cases], tmp_path / "p")


def test_torn_and_bombed_files(true_lines: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "p"
    assert accepted(true_lines, path)
    data = path.read_bytes()
    for cut in (0, 1, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ProofError):
            check_proof(path)
    path.write_bytes(data + b"x")
    with pytest.raises(ProofError):
        check_proof(path)
    path.write_bytes(gzip.compress(b" " * (1 << 26)))
    with pytest.raises(ProofError, match="far more than its size"):
        check_proof(path)
    path.write_bytes(gzip.compress(b"[" * 100_000 + b"\n"))
    with pytest.raises(ProofError):
        check_proof(path)


def test_refutations_need_more_than_zero(tmp_path: Path) -> None:
    """A unit that is zero everywhere contradicts neither side, whatever the weights."""
    network = {"inputs": 1, "weight": [[0.0]], "bias": [0.0], "left": [0.0], "right": [1.0]}
    head = {"inputs": 1, "weight": [[1.0]], "bias": [0.0], "left": [1.0], "right": [1.0]}
    first = {
        "format": "lipyomo-proof-4",
        "network": [network, head],
        "domain": {"lower": [-1.0], "upper": [1.0], "A": [], "b": [], "ball": None},
        "input_norm": "linf",
        "output_norm": "linf",
        "lower": 0.0,
        "upper": 0.0,
        "onnx": None,
        "witness": {"x": [0.0]},
        "basis": None,
    }
    empty = [["empty", [0, [[0], [1]], [[], []], [[], []]]]]
    assert not accepted([first, [["split", 0]], empty, empty], tmp_path / "p")
    assert accepted([first, [["split", 0]], [["end"]], [["end"]]], tmp_path / "p")


def test_a_line_without_ends_has_few_cases(tmp_path: Path) -> None:
    """Nineteen units in one input: a case for each of half a million patterns would be too many.

    The search takes 240 to 1,240 on this and six more networks; all patterns are 2^20 - 1 cases.
    """
    problem = LipschitzProblem(random_network(2, (1, 6, 8, 5, 2)), AllSpace(1))
    assert proved(problem, tmp_path / "p").nodes < 2**20 / 500


def test_what_is_written_is_forgotten(tmp_path: Path) -> None:
    """Memory holds the cases that wait to be settled, not the tree, nor what is to be written."""
    problem = LipschitzProblem(random_network(0, (1, 10, 10, 2)), AllSpace(1))
    held = []

    def told(cases: int) -> None:
        if cases % 100 == 0:
            held.append(sum(type(thing) is Case for thing in gc.get_objects()))

    result = lipyomo.solve(problem)
    gc.collect()
    gc.freeze()  # what other tests left need not be looked through, here and later
    cases = write_proof(tmp_path / "p", problem, result, progress=told).cases
    assert cases > 200
    assert 0 < max(held) < cases / 10


def test_kinks_that_coincide_have_few_cases(tmp_path: Path) -> None:
    """Bounds are written with room: they decide no unit whose kink is where the box was cut."""
    weights = [
        [[-2, 2], [2, 2], [0, 1], [2, 2], [6, 6]],
        [[2, 1, -2, -1, 0.5], [4, 2, -4, -2, 1], [6, 3, -6, -3, 1.5]],
        [[2, -1, 1], [2, 1, -1], [-2, 1, -1], [-2, 1, 0.5], [-6, 3, 1.5], [-1, -0.5, 0.5]],
        [[1, 2, -2, 0, -1, -1]],
    ]
    biases = [[0, -1, 0, -1, -3], [-1, -2, -3], [2, 0, 0, 0, 0, 0], [2]]
    problem = LipschitzProblem(lipyomo.Network.from_arrays(weights, biases), Box(-1.0, 1.0, 2))
    assert proved(problem, tmp_path / "p").nodes < 1000


FLAT: dict[str, dict[str, Any]] = {
    "two rows": {"A": [[1.0, 1.0], [-1.0, -1.0]], "b": [0.0, 0.0]},
    "ball beside the box": {"ball": {"norm": "l2", "center": [2.0, 0.0], "radius": 1.0}},
    "ball of radius 0": {"ball": {"norm": "l1", "center": [0.0, 0.0], "radius": 0.0}},
}


@pytest.mark.parametrize("flat", FLAT)
def test_a_domain_without_interior_is_rejected(flat: str, tmp_path: Path) -> None:
    """On the segment the constant of x_1 - x_2 is 1, though no piece meets its interior."""
    network = {"inputs": 2, "weight": [[1.0, -1.0]], "bias": [0.0], "left": [1.0], "right": [1.0]}
    box = {"lower": [-1.0, -1.0], "upper": [1.0, 1.0], "A": [], "b": [], "ball": None}
    first = {
        "format": "lipyomo-proof-4",
        "network": [network],
        "domain": box | FLAT[flat],
        "input_norm": "linf",
        "output_norm": "linf",
        "lower": 0.0,
        "upper": 0.0,
        "onnx": None,
        "basis": None,
    }
    cases: list[Any] = [[["empty", [0, [[], []], [[], []], [[0, 1], [1, 1]]]]]]
    if flat != "two rows":
        first, cases = first | {"upper": 2.0}, [[["end"]]]
    for witness in (None, {"x": [0.0, 0.0]}, {"x": [1.0, 0.0]}):
        assert not accepted([first | {"witness": witness}, *cases], tmp_path / "p")
    thick = first | {"domain": box, "upper": 2.0, "witness": {"x": [0.0, 0.0]}}
    assert accepted([thick, [["end"]]], tmp_path / "p")


def test_images_of_squares(tmp_path: Path) -> None:
    """Columns (1, 3) and (2, -4), whose longest sum is (-1, 7): sqrt(50)."""
    layer = {"inputs": 2, "weight": [[1.0, 2.0], [3.0, -4.0]], "bias": [0.0, 0.0]}
    first = {
        "format": "lipyomo-proof-4",
        "network": [layer | {"left": [1.0, 1.0], "right": [1.0, 1.0]}],
        "domain": {"lower": [-1.0] * 2, "upper": [1.0] * 2, "A": [], "b": [], "ball": None},
        "input_norm": "linf",
        "output_norm": "l2",
        "lower": 0.0,
        "onnx": None,
        "witness": {"x": [0.0, 0.0]},
        "basis": None,
    }
    assert accepted([first | {"upper": 7.0711}, [["end"]]], tmp_path / "p")
    assert not accepted([first | {"upper": 7.0710}, [["end"]]], tmp_path / "p")


def test_sides_are_not_excluded_for_the_norm_of_several_outputs(tmp_path: Path) -> None:
    """A multiple is taken from one functional: the other outputs would be forgotten."""
    first = {
        "format": "lipyomo-proof-4",
        "network": [
            {"inputs": 1, "weight": [[1.0]], "bias": [0.0], "left": [0.0], "right": [1.0]},
            {"inputs": 1, "weight": [[0.0], [9.0]], "bias": [0.0, 0.0]}
            | {"left": [1.0, 1.0], "right": [1.0, 1.0]},
        ],
        "domain": {"lower": [-1.0], "upper": [1.0], "A": [], "b": [], "ball": None},
        "input_norm": "l2",
        "output_norm": "l2",
        "lower": 0.0,
        "upper": 9.5,
        "onnx": None,
        "witness": {"x": [0.0]},
        "basis": None,
    }
    rest = [["close", [0], [1 << 40], []], ["end"]]
    excluded = [["exclude", [1 << 30], [1 << 30], [[0, "L", 0.0]]], *rest]
    assert not accepted([first | {"upper": 1.5}, excluded], tmp_path / "p")
    assert accepted([first, [["split", 0]], rest, rest], tmp_path / "p")


def test_sides_are_excluded_for_the_target_that_is_open(tmp_path: Path) -> None:
    """The worst of several targets may be closed already."""
    weights = [
        [[-2, -2], [-1, 1], [-1, 2], [1, 0], [-6, -6], [1, -2]],
        [[0, 0, -2, -2, 1, -1], [2, 0, -1, 0, 0.5, 1], [-2, 0, 1, 0, -0.5, -1]],
        [[2, -1, -1, -1], [2, 0, -1, -1], [1, -1, -1, -1], [-0.5, 0.5, 0.5, 0.5], [4, -2, -2, -2]],
        [[2, 0, 1, -1, -1]],
    ]
    weights[1].append([-1, 0, 0.5, 0, -0.25, -0.5])
    biases = [[0, 0, 0, -1, 0, 0], [0] * 4, [0, 2, -1, 0.5, 0], [0]]
    network = lipyomo.Network.from_arrays(weights, biases)
    proved(LipschitzProblem(network, AllSpace(2), "l1"), tmp_path / "p")
