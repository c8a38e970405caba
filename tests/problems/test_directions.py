"""Directions: what is asked for, and what does not fit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lipyomo
from lipyomo.base.arrays import dense
from lipyomo.base.errors import MethodError, ProblemError, ProofError
from lipyomo.methods.registry import methods, run_method
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.directions import parse_directions
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import DUAL, vector_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result
from lipyomo.problems.settings import Settings
from lipyomo.proofs import write_proof
from networks import mixed_network, random_network


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"wrt": slice(None)}, None),
        ({"weights": 1.0}, None),
        ({"wrt": 1}, [[0], [1], [0]]),
        ({"wrt": [-1, 0]}, [[1, 0], [0, 0], [0, 1]]),
        ({"wrt": slice(1, None)}, [[0, 0], [1, 0], [0, 1]]),
        ({"wrt": [True, False, True]}, [[1, 0], [0, 0], [0, 1]]),
        ({"weights": [2, 0, 0.5]}, [[2, 0], [0, 0], [0, 0.5]]),
        ({"weights": [2, 3, 0.5], "wrt": [1]}, [[0], [3], [0]]),
        ({"directions": [1, 2, 3]}, [[1], [2], [3]]),
        ({"directions": sp.eye_array(3).tocsr()[:, [2]]}, [[0], [0], [1]]),
    ],
)
def test_what_is_meant(asked: dict[str, Any], expected: Any) -> None:
    found = parse_directions(3, **asked)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        np.testing.assert_array_equal(dense(found), np.array(expected, dtype=float))
        with pytest.raises(ValueError, match="read-only"):
            dense(found)[0, 0] = 1.0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"wrt": 3}, "has input 3"),
        ({"wrt": []}, "names no input"),
        ({"wrt": [0, -3]}, "twice"),
        ({"wrt": [0.5]}, "whole number"),
        ({"wrt": "x"}, "no names"),
        ({"wrt": {"x": 1}}, "indices of inputs|whole number"),
        ({"wrt": [True, False]}, "mask of 2"),
        ({"weights": [1, 2]}, "2 weights for 3"),
        ({"weights": [1, -2, 1]}, "at least zero"),
        ({"weights": [1, np.nan, 1]}, "at least zero"),
        ({"weights": 0.0}, "weight zero"),
        ({"weights": [0, 1, 1], "wrt": 0}, "weight zero"),
        ({"directions": np.eye(2)}, r"expected \(3, k\)"),
        ({"directions": np.zeros((3, 0))}, r"expected \(3, k\)"),
        ({"directions": [1, np.inf, 0]}, "NaN or infinite"),
        ({"directions": [1e200, 0, 0]}, "above 1e"),
        ({"directions": np.eye(3), "wrt": 0}, "either directions"),
    ],
)
def test_what_does_not_fit(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        LipschitzProblem(random_network(0, (3, 4, 1)), Box(-1, 1, 3), **asked)


def test_frozen_inputs_take_their_directions_along() -> None:
    network, box = mixed_network(1, (3, 4, 2)), Box([-1, 0.5, -1], [1, 0.5, 1])
    one = LipschitzProblem(network, box, wrt=[0, 1])
    np.testing.assert_array_equal(dense(one.directions), [[1], [0], [0]])
    with pytest.raises(ProblemError, match="all directions move"):
        LipschitzProblem(network, box, wrt=1)
    with pytest.raises(ProblemError, match="metric"):
        LipschitzProblem(network, box, directions=[[1, 0], [1, 1], [0, 1]])
    x = np.array([0.3, 0.5, -0.2])
    plain = LipschitzProblem(network, box, "l2").value_at(x)
    same = LipschitzProblem(network, box, "l2", weights=1.0, wrt=[0, 1, 2]).value_at(x)
    assert same.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.parametrize("wrt", [[1], [0, 1]])
@pytest.mark.parametrize("norm_in", ["l1", "l2", "linf"])
def test_smooth_networks_are_differentiated_along_fixed_inputs_that_are_named(
    norm_in: Any, wrt: list[int]
) -> None:
    """The normal derivative on an edge of a square, against points close together."""
    network, box = tanh_network(), Box([-1, 0.3], [1, 0.3])
    problem = LipschitzProblem(network, box, norm_in, wrt=wrt)
    assert any("input 1" in note for note in problem.notes)
    x = np.column_stack([np.linspace(-1, 1, 2001), np.full(2001, 0.3)])
    slopes = network.gradients(x, np.ones(1))[:, wrt]
    truth = float(vector_norm(slopes, DUAL[norm_in]).max())
    found = lipyomo.solve(problem)
    assert found.is_exact
    assert truth * (1 - 1e-9) <= found.upper <= truth * (1 + 1e-4)
    assert found.witness is not None
    assert found.witness.x[1] == 0.3
    for method in ("crown", "sdp", "interval", "naive"):
        assert lipyomo.solve(problem, method, attain=False).upper >= truth
    one = lipyomo.derivative_range(LipschitzProblem(network, box, wrt=[1]))
    along = network.gradients(x, np.ones(1))[:, 1]
    assert one.low[0] <= along.min()
    assert one.high[1] >= along.max()
    assert one.is_exact


def test_fixed_inputs_that_are_not_named_have_no_say() -> None:
    """By weights or for all inputs; piecewise-linear networks have one meaning only."""
    network, box = tanh_network(), Box([-1, 0.3], [1, 0.3])
    whole = lipyomo.solve(LipschitzProblem(network, box)).upper
    assert lipyomo.solve(LipschitzProblem(network, box, wrt=0)).upper == whole
    assert lipyomo.solve(LipschitzProblem(network, box, weights=[1, 2])).upper == whole
    named = LipschitzProblem(network, box, wrt=1)
    with pytest.raises(ProofError, match="cannot move"):
        write_proof("never.proof", named, lipyomo.solve(named))


def test_over_another_domain_the_same_is_asked() -> None:
    """Also where one of the domains fixes an input that the other one does not, or `wrt` names."""
    first, second = Box([-1, 0.3], [1, 0.3]), Box([-1, 0.2], [0, 0.9])
    for network in (tanh_network(), mixed_network(2, (2, 4, 1))):
        for asked in ({"wrt": [0, 1]}, {"weights": [1, 2]}, {"directions": np.diag([1.0, 2.0])}):
            for one, other in ((first, second), (second, first), (first, Box([-1, 0], [0, 0]))):
                problem = LipschitzProblem(network, one, **asked).over(other)
                again = LipschitzProblem(network, other, **asked)
                assert problem.at_fixed.tolist() == again.at_fixed.tolist()
                assert repr(problem) == repr(again)
                parts = [
                    None if p.directions is None else dense(p.directions).tolist()
                    for p in (problem, again)
                ]
                assert parts[0] == parts[1]
    named = LipschitzProblem(tanh_network(), first, wrt=(j for j in (0, 1)))
    assert named.at_fixed.tolist() == [False, True]


def tanh_network() -> Network:
    """Of two inputs."""
    rng = np.random.default_rng(1)
    curve = Curve(activation("tanh"), np.arange(6))
    first = Layer(rng.standard_normal((6, 2)), rng.standard_normal(6), curves=(curve,))
    return Network([first, Layer(rng.standard_normal((1, 6)), np.zeros(1))])


@pytest.mark.parametrize("norm_in", ["l1", "l2", "linf"])
def test_values_at_points(norm_in: Any) -> None:
    network, T = mixed_network(2, (3, 4, 2)), np.array([[0.1, -2.0], [0.7, 1.0], [0.0, 3.0]])
    problem = LipschitzProblem(network, Box(-1, 1, 3), norm_in, "l2", directions=T)
    x = np.array([0.1, 0.2, -0.3])
    found = problem.value_at(x)
    value = float(found.functional @ network.jacobian_at(x) @ found.direction)
    assert value == pytest.approx(found.value, rel=1e-12)
    reduced = problem.reduced.problem
    assert reduced.value_at(x).value == pytest.approx(found.value, rel=1e-12)
    along = reduced.tangent_network.jacobian(reduced.network.pattern(x))
    np.testing.assert_allclose(along, network.jacobian_at(x) @ T, rtol=1e-12)


def test_problems_say_what_is_asked() -> None:
    network, box = random_network(0, (3, 4, 1)), Box(-1, 1, 3)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"wrt": [0, 2]}, "wrt 0, 2"),
        ({"weights": [1, 2, 3]}, "3 weighted inputs"),
        ({"directions": [1, 2, 3]}, "1 direction"),
    ]
    for asked, words in cases:
        assert words in LipschitzProblem(network, box, **asked).describe_norms()


def test_methods_that_know_no_directions_refuse_by_name() -> None:
    problem = LipschitzProblem(random_network(0, (3, 4, 1)), Box(-1, 1, 3), wrt=0)
    for name, method in methods().items():
        if "two-slope" not in method.directions:
            with pytest.raises(MethodError, match=f"method {name} .*directions"):
                run_method(name, problem, Settings())


def test_inputs_of_infinite_weight_make_a_constant_infinite_only_with_a_witness() -> None:
    # relu(x) and relu(y - 3): the second input counts beyond 3 only
    network = Network.from_arrays([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0]]], [[0.0, -3.0], [0.0]])
    weights = [1.0, np.inf]
    still = LipschitzProblem(network, Box(-1, 1, 2), weights=weights)
    assert still.describe_norms() == "linf -> |.|, wrt 0, free of cost: wrt 1"
    assert lipyomo.solve(still).lower == 2.0
    assert lipyomo.solve(still).is_exact
    frozen = LipschitzProblem(network, Box([-1, 5], [1, 5]), weights=weights)
    assert frozen.free is None
    assert lipyomo.solve(frozen).upper == pytest.approx(2.0)
    for method in ("bnb", "crown", "random_lb"):
        moves = lipyomo.solve(LipschitzProblem(network, Box(-1, 5, 2), weights=weights), method)
        assert (moves.lower, moves.upper) == (np.inf, np.inf)
        assert moves.is_exact
        assert moves.witness is not None
        assert moves.witness.x[1] > 3
        assert moves.witness.value > 0
        assert "infinite" in moves.summary()
        assert Result.from_dict(json.loads(json.dumps(moves.to_dict()))) == moves
    only = LipschitzProblem(network, Box(-1, 1, 2), weights=[0.0, np.inf])
    assert lipyomo.solve(only).upper == 0.0


def test_without_time_the_upper_end_is_open() -> None:
    network = random_network(3, (4, 12, 12, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 4), weights=[1, 1, 1, np.inf])
    found = lipyomo.solve(problem, "crown", time_limit=1e-3)
    assert found.upper == np.inf
    assert found.lower == np.inf or not found.is_exact
