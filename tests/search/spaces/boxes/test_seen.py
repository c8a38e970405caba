"""Inputs that layers pass on: of these nonlinear functions see less than all."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.context import Context, Question

TOKENS = 2


def block(features: int, seed: int) -> Network:
    """``x + M norm(x)``, then ``h + M' tanh(norm(h))``, token by token; and a sum of all."""
    rng = np.random.default_rng(seed)
    shape, size = (1, TOKENS, features), (features, features)
    arrays = {
        "shape": np.array(shape),
        "flat": np.array([1, TOKENS * features]),
        "scale": np.ones(features),
        "first": rng.normal(size=size),
        "second": rng.normal(size=size),
        "across": rng.normal(size=(TOKENS, TOKENS)),
        "read": rng.normal(size=(TOKENS * features, 1)),
    }
    nodes = [
        helper.make_node(kind, inputs.split(), [output], **more)
        for kind, inputs, output, more in (
            ("Reshape", "x shape", "t", {}),
            ("LayerNormalization", "t scale", "n", {"epsilon": 0.1}),
            ("MatMul", "n first", "m", {}),
            ("MatMul", "across m", "a", {}),
            ("Add", "t a", "h", {}),
            ("LayerNormalization", "h scale", "k", {"epsilon": 0.1}),
            ("MatMul", "k second", "o", {}),
            ("Tanh", "o", "p", {}),
            ("Add", "h p", "q", {}),
            ("Reshape", "q flat", "r", {}),
            ("MatMul", "r read", "y", {}),
        )
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1, count])]
        for name, count in (("x", TOKENS * features), ("y", 1))
    ]
    given = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "graph", *ends, given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return from_model(model, check=False)


@pytest.mark.parametrize("features", [2, 3])
def test_arguments_are_those_of_features(features: int) -> None:
    """What is added to a token all over is not seen; other rows are as before, up to `off`."""
    rng = np.random.default_rng(features)
    domain = Box(np.full(TOKENS * features, -0.5), np.full(TOKENS * features, 0.5))
    question = Question(LipschitzProblem(block(features, 1), domain, "linf"))
    plain, seen = Context.of(question), Context.of(question, featured=True)
    assert seen.features is not None
    assert seen.inputs == TOKENS * (features - 1)
    x = domain.sample(rng, 100)
    h, g, checked = x, seen.features.of(x), 0
    for one, other in zip(plain.stages, seen.stages, strict=True):
        z, y = h @ one.weight.T + one.bias, g @ other.weight.T + other.bias
        off = seen.unit * other.off
        assert off.max() < 1e-10
        checked += np.count_nonzero(off)
        near = abs(z - y) <= off + 1e-13 * (1.0 + abs(z))
        passed = abs(one.slopes(z)[:, : one.bias.size] - 1.0).max(axis=0) == 0.0
        assert near[:, ~passed].all()
        assert near[:, off > 0.0].all()
        h, g = one.outputs(z), other.outputs(y)
    assert checked


def test_constants_are_those_of_the_features() -> None:
    """Exact, attained in the domain, and not below any Jacobian there."""
    rng = np.random.default_rng(0)
    center = np.linspace(-1.0, 1.0, 2 * TOKENS)
    domain = Box(center - 0.1, center + 0.1)
    problem = LipschitzProblem(block(2, 2), domain, "linf")
    found = lipyomo.solve(problem, time_limit=60)
    assert found.status == "exact"
    assert max(problem.value_at(x).value for x in domain.sample(rng, 100)) <= found.upper
    assert found.witness is not None
    assert domain.contains(found.witness.point)
    assert problem.value_at(found.witness.point).value == pytest.approx(found.lower, rel=1e-9)
