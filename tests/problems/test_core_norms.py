"""Norms, dual balls and operator norms: by definition, by vertices and by sampling."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, Network
from lipyomo.base.errors import NormError
from lipyomo.problems.norms import (
    DUAL,
    CrossOutput,
    InputNorm,
    L1Output,
    L2Output,
    LinearOutput,
    LinfOutput,
    OutputNorm,
    check_input_norm,
    functional,
    maximiser,
    parse_output_norm,
    vector_norm,
)
from lipyomo.problems.operator_norm import norm_of_sizes, operator_norm
from oracle import matrix_norm

INPUTS: list[InputNorm] = ["l1", "l2", "linf"]


def outputs(m: int) -> list[OutputNorm]:
    """Every kind of output norm on m outputs."""
    rng = np.random.default_rng(m)
    return [
        L1Output(),
        L2Output(),
        LinfOutput(),
        CrossOutput(),
        CrossOutput(m - 1),
        LinearOutput(vertices=rng.standard_normal((4, m))),
        LinearOutput(A=np.vstack([np.eye(m), -np.eye(m)]), b=np.full(2 * m, 0.5)),
        functional(rng.standard_normal(m)),
    ]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 9999),
    m=st.integers(1, 4),
    d=st.integers(1, 6),
    norm_in=st.sampled_from(INPUTS),
    which=st.integers(0, 7),
)
def test_operator_norms(seed: int, m: int, d: int, norm_in: InputNorm, which: int) -> None:
    rng = np.random.default_rng(seed)
    J, norm = rng.standard_normal((m, d)) * rng.integers(0, 2, (m, d)), outputs(m)[which]
    found = operator_norm(J, norm_in, norm)
    true = matrix_norm(J, norm_in, norm)
    assert found.value == pytest.approx(true, rel=1e-9, abs=1e-12)
    assert found.upper == pytest.approx(true, rel=1e-9, abs=1e-12)
    assert vector_norm(found.direction, norm_in) <= 1 + 1e-12
    assert found.functional @ J @ found.direction == pytest.approx(true, rel=1e-9, abs=1e-12)
    z = rng.standard_normal((20, m))
    assert (np.abs(z @ found.functional) <= norm.value(z) * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_norms_are_the_support_of_their_dual_balls(m: int) -> None:
    z = np.random.default_rng(0).standard_normal((50, m))
    for norm in outputs(m):
        vertices = norm.vertices(m)
        if vertices is not None:
            np.testing.assert_allclose(norm.value(z), np.abs(z @ vertices.T).max(axis=1), rtol=1e-9)
        rows = norm.inequalities(m)
        if vertices is not None and rows is not None:
            A, b = rows
            assert (np.vstack([vertices, -vertices]) @ A.T <= b + 1e-9).all()


@pytest.mark.parametrize(("m", "d"), [(2, 40), (20, 3), (30, 40)])
@pytest.mark.parametrize("norm_in", INPUTS)
def test_large_hard_pairs_are_bracketed(m: int, d: int, norm_in: InputNorm) -> None:
    rng = np.random.default_rng(1)
    J = rng.standard_normal((m, d))
    for norm in (L1Output(), L2Output()):
        found = operator_norm(J, norm_in, norm)
        directions = rng.standard_normal((2000, d))
        if norm_in == "linf":
            directions = np.sign(directions)
        directions /= vector_norm(directions, norm_in)[:, None]
        sampled = norm.value(directions @ J.T).max()
        assert sampled <= found.value * (1 + 1e-9)
        assert found.value <= found.upper * (1 + 1e-12)
        assert vector_norm(found.direction, norm_in) <= 1 + 1e-9
        dual = (
            np.abs(found.functional).max()
            if isinstance(norm, L1Output)
            else np.linalg.norm(found.functional)
        )
        assert dual <= 1 + 1e-9


@pytest.mark.parametrize("norm_in", INPUTS)
def test_many_inputs_do_not_change_the_dual_ball(norm_in: InputNorm) -> None:
    # As many entries as an image network has: the functional must stay in its dual ball.
    J = np.random.default_rng(0).standard_normal((12, 400_000))
    for norm in (LinfOutput(), CrossOutput(3)):
        found = operator_norm(J, norm_in, norm)
        vertices = norm.vertices(12)
        assert vertices is not None
        assert found.value == pytest.approx(vector_norm(vertices @ J, DUAL[norm_in]).max())
        assert (np.abs(found.functional) <= 1).all()


def test_signs_of_the_plane() -> None:
    # linf to l2 with two outputs and many inputs has a closed form: compare with all signs.
    rng = np.random.default_rng(3)
    J = rng.standard_normal((2, 14))
    direct = operator_norm(J, "linf", L2Output()).value
    padded = operator_norm(np.hstack([J, np.zeros((2, 10))]), "linf", L2Output())
    assert padded.value == pytest.approx(direct)
    assert padded.upper == pytest.approx(direct)


@pytest.mark.parametrize("norm", INPUTS)
def test_dual_norms(norm: InputNorm) -> None:
    g = np.random.default_rng(0).standard_normal(6)
    v = maximiser(g, norm)
    assert vector_norm(v, norm) == pytest.approx(1.0)
    assert g @ v == pytest.approx(vector_norm(g, DUAL[norm]))
    assert vector_norm(maximiser(np.zeros(6), norm), norm) <= 1.0


def test_names_are_read_back() -> None:
    for name in ("l1", "l2", "linf", "cross", "cross(2)"):
        assert parse_output_norm(name).name == name
    assert parse_output_norm(" CROSS(0) ").name == "cross(0)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: parse_output_norm("l7"), "unknown output norm 'l7'"),
        (lambda: check_input_norm("cross"), "unknown input norm"),
        (lambda: CrossOutput(3).check(3), "label 3 is out of range"),
        (lambda: LinearOutput(), "either the vertices or A and b"),
        (lambda: LinearOutput(vertices=[[np.nan]]), "finite"),
        (lambda: LinearOutput(A=[[1.0, 0.0]], b=[1.0]), "bounded"),
        (lambda: LinearOutput(A=[[1.0], [-1.0]], b=[1.0, -1.0]), "0 in its interior"),
        (lambda: LinearOutput(A=[[1.0]], b=[1.0]), "bounded"),
        (lambda: LinearOutput(A=[[1.0], [-1.0]], b=[1.0]), "shape"),
        (lambda: functional([1.0, 2.0]).check(3), "2 entries"),
    ],
)
def test_bad_norms_are_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(NormError, match=message):
        build()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("m", [1, 2, 3])
def test_vertices_of_inequalities_lie_on_the_ball_or_outside(seed: int, m: int) -> None:
    """In exact arithmetic, and no more outside than the norm says."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([rng.integers(-9, 10, (m + 2, m)) / 10.0, np.eye(m)])
    rows = np.vstack([rows, -rows])
    right = np.concatenate([rng.uniform(0.5, 2.0, m + 2), np.ones(m)])
    right = np.concatenate([right, right])
    norm = LinearOutput(A=rows, b=right)
    assert norm.proved
    points = [[Fraction(v) for v in y] for y in norm.vertices(m).tolist()]
    faces = [([Fraction(a) for a in row], Fraction(b)) for row, b in zip(rows, right, strict=True)]
    for y in points:
        gauge = max(sum(a * v for a, v in zip(row, y, strict=True)) / b for row, b in faces)
        assert 1 <= gauge <= 1 + Fraction(norm.excess)
    for direction in rng.standard_normal((10, m)):
        program = linprog(-direction, A_ub=rows, b_ub=right, bounds=(None, None))
        assert float(norm.value(direction)) >= -program.fun * (1 - 1e-12)


def test_ends_of_a_norm_of_inequalities_are_ends() -> None:
    """One layer: the constant is a vertex's gradient, known in fractions."""
    rows = np.array([[3.0, 1.0], [1.0, 7.0], [-3.0, -1.0], [-1.0, -7.0]])
    weight = np.array([[0.1, 0.7], [0.3, -0.2]])
    problem = LipschitzProblem(
        Network([Layer(weight, [0.0, 0.0])]), Box(-1, 1, 2), "l1",
        LinearOutput(A=rows, b=np.ones(4)),
    )  # fmt: skip
    exact = [[Fraction(v) for v in row] for row in weight.tolist()]
    corners = [(Fraction(3, 10), Fraction(1, 10)), (Fraction(2, 5), Fraction(-1, 5))]
    truth = max(abs(y0 * exact[0][j] + y1 * exact[1][j]) for y0, y1 in corners for j in range(2))
    for method in ("bnb", "interval", "naive"):
        result = lipyomo.solve(problem, method)
        assert Fraction(result.lower) <= truth <= Fraction(result.upper)


@pytest.mark.parametrize("norms", [("l2", "l2"), ("linf", "l2"), ("l1", "l2"), ("l2", "linf")])
@pytest.mark.parametrize("shape", [(2, 3), (3, 12), (2, 400)])
def test_a_norm_is_rounded_outwards(norms: tuple[str, str], shape: tuple[int, int]) -> None:
    """The upper end of a norm lies above its square's own, in fractions."""
    jacobian = np.random.default_rng(0).standard_normal(shape)
    found = operator_norm(jacobian, norms[0], parse_output_norm(norms[1]))
    exact = [[Fraction(v) for v in row] for row in jacobian.tolist()]
    y, v = ([Fraction(e) for e in part.tolist()] for part in (found.functional, found.direction))
    images = [sum(entry * b for entry, b in zip(row, v, strict=True)) for row in exact]
    value = sum(a * image for a, image in zip(y, images, strict=True))
    scale = {"l2": lambda w: sum(e * e for e in w), "linf": lambda w: max(map(abs, w)) ** 2,
             "l1": lambda w: sum(map(abs, w)) ** 2}  # fmt: skip
    dual = {"l2": "l2", "linf": "l1"}[norms[1]]
    reached = value * value / (scale[norms[0]](v) * scale[dual](y))
    assert Fraction(found.upper) ** 2 >= reached
    assert found.upper <= found.value * (1 + 1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_an_operator_norm_that_cancels_is_not_below_the_truth(norm: str) -> None:
    rng = np.random.default_rng(3)
    for digits in (3, 7, 99):
        for _ in range(40):
            c, jacobian = rng.normal(size=4).round(2) + 0.001, rng.normal(size=(4, 2)).round(2)
            jacobian[3] = np.round(-(c[:3] @ jacobian[:3]) / c[3], digits)
            gradient = [
                sum(Fraction(y) * Fraction(w) for y, w in zip(c, column, strict=True))
                for column in jacobian.T.tolist()
            ]
            sizes = [abs(entry) for entry in gradient]
            square = {
                "l1": max(sizes) ** 2,
                "l2": sum(size**2 for size in sizes),
                "linf": sum(sizes) ** 2,
            }[norm]
            found = operator_norm(jacobian, norm, functional(c))
            assert Fraction(found.upper) ** 2 >= square
            assert found.upper <= float(square) ** 0.5 * (1 + 1e-8) + 1e-300


def test_sizes_of_outputs_add_up_in_norms_that_compare_them() -> None:
    sizes = np.array([3.0, 2.0, 1.0])
    largest = {name: parse_output_norm(name).largest(sizes) for name in ("cross", "cross(2)", "l1")}
    assert largest == {"cross": 5.0, "cross(2)": 4.0, "l1": 6.0}
    assert norm_of_sizes(sizes[:, None], "linf", parse_output_norm("cross")) >= 5.0


def test_margins_of_many_classes_are_not_halved() -> None:
    """More vertices than are bounded one by one, and two outputs of opposite signs."""
    head = np.zeros((40, 2))
    head[0], head[1] = (1.0, 0.5), (-1.0, -0.5)
    network = Network.from_arrays([[[1.0], [2.0]], head])
    problem = LipschitzProblem(network, Box(-1, 1, 1), output_norm="cross")
    for method in ("interval", "auto"):
        result = lipyomo.solve(problem, method)
        assert result.is_exact
        assert result.upper == pytest.approx(4.0)
