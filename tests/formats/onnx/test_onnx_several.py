"""Models of several inputs and outputs: values for some inputs, joined ones, stacked outputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import DOUBLE, FLOAT, model

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, networks
from lipyomo.base.errors import ImportRefused, NetworkError, ProblemError
from lipyomo.formats.onnx import check_against_runtime, from_model
from lipyomo.formats.onnx.arrange import SeveralInputs

RNG = np.random.default_rng(0)
W, V = RNG.normal(size=(4, 5)).astype(np.float32), RNG.normal(size=(5, 2)).astype(np.float32)


def plant(kind: int = FLOAT) -> onnx.ModelProto:
    """``h = relu([s, u] W)``, outputs ``h V``, ``h`` and ``s``; s is 1 x 3, u a vector of one."""
    nodes = [
        helper.make_node("Reshape", ["u", "flat"], ["row"]),
        helper.make_node("Concat", ["s", "row"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "W"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("MatMul", ["h", "V"], ["next"]),
    ]
    proto = model(nodes, ["N", 3], {"W": W, "V": V, "flat": np.array([1, -1])}, kind=kind)
    del proto.graph.input[:], proto.graph.output[:]
    for name, shape in (("s", ["N", 3]), ("u", [1])):
        proto.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    proto.graph.output.append(helper.make_tensor_value_info("next", kind, None))
    return proto


def runtime(proto: onnx.ModelProto, s: np.ndarray, u: np.ndarray, *names: str) -> np.ndarray:
    """What onnxruntime computes at one point, the tensors one after the other."""
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    known = {value.name for value in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    session = onnxruntime.InferenceSession(shown.SerializeToString())
    dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    feed = {"s": s.reshape(1, 3).astype(dtype), "u": u.reshape(1).astype(dtype)}
    return np.concatenate([value.reshape(-1) for value in session.run(list(names), feed)])


POINTS = RNG.normal(size=(10, 4))


@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
def test_inputs_are_joined_in_order(kind: int) -> None:
    proto = plant(kind)
    with pytest.warns(SeveralInputs, match=r"'s' \(3\), 'u' \(1\)"):
        network = from_model(proto)
    expected = [runtime(proto, x[:3], x[3:], "next") for x in POINTS]
    np.testing.assert_allclose(network(POINTS), expected, atol=1e-5)


def test_an_input_that_has_a_value_is_a_constant() -> None:
    proto = plant()
    for fixed in ({"u": 0.25}, {"u": [0.25]}, {"u": np.array([[0.25]])}):
        network = from_model(proto, fixed=fixed)
        assert network.input_dim == 3
        expected = [runtime(proto, x[:3], np.array([0.25]), "next") for x in POINTS]
        np.testing.assert_allclose(network(POINTS[:, :3]), expected, atol=1e-5)
    network = from_model(proto, fixed={"s": [1, 2, 3]})
    expected = [runtime(proto, np.array([1.0, 2, 3]), x[3:], "next") for x in POINTS]
    np.testing.assert_allclose(network(POINTS[:, 3:]), expected, atol=1e-5)
    assert check_against_runtime(network, proto, fixed={"s": [1, 2, 3]}) < 1e-4


@pytest.mark.parametrize("output", ["next,h,s", ["next", "h", "s"], ("next", "h", "s")])
def test_outputs_are_stacked(output: object) -> None:
    proto = plant()
    with pytest.warns(SeveralInputs):
        network = from_model(proto, output)  # type: ignore[arg-type]
    assert network.output_dim == 2 + 5 + 3
    expected = [runtime(proto, x[:3], x[3:], "next", "h", "s") for x in POINTS]
    np.testing.assert_allclose(network(POINTS), expected, atol=1e-5)


def test_nodes_are_stacked_and_commas_belong_to_names_that_have_them() -> None:
    proto = plant()
    assert from_model(proto, "first,h", fixed={"u": 0}).output_dim == 10
    proto.graph.node[-1].output[0] = "a,b"
    proto.graph.output[0].name = "a,b"
    assert from_model(proto, "a,b", fixed={"u": 0}).output_dim == 2
    assert from_model(proto, ["a,b", "h", "h"], fixed={"u": 0}).output_dim == 12


def test_only_inputs_that_are_read_are_joined() -> None:
    assert from_model(plant(), "s").sizes == (3, 3)


def test_whole_numbers_can_be_given() -> None:
    nodes = [helper.make_node("Gather", ["x", "which"], ["y"], axis=1)]
    proto = model(nodes, ["N", 3])
    proto.graph.input.append(helper.make_tensor_value_info("which", TensorProto.INT64, [2]))
    network = from_model(proto, fixed={"which": [2, 0]})
    assert network([1.0, 2.0, 3.0]).tolist() == [3.0, 1.0]
    with pytest.raises(ImportRefused, match="these values"):
        from_model(proto, fixed={"which": [0.5, 0]})
    with pytest.raises(ImportRefused, match=r"different types.*\n.*--fix"):
        from_model(proto)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"v": 1}, "no input 'v'.*\n.*'s', 'u'"),
        ({"u": [1, 2]}, "1 entries .* 2 values"),
        ({"u": np.nan}, "these values"),
        ({"u": "one"}, "real numbers"),
        ([("u", 1)], "mapping"),
        ({"u": 0, "s": 0}, "all inputs of the model are fixed"),
    ],
)
def test_values_that_do_not_fit(fixed: object, words: str) -> None:
    with pytest.raises(ImportRefused, match=words):
        from_model(plant(), fixed=fixed)  # type: ignore[arg-type]


def test_given_models_stay_as_they_are() -> None:
    proto = plant()
    before = proto.SerializeToString()
    from_model(proto, "next,h", fixed={"u": 1})
    assert proto.SerializeToString() == before


def test_stored_names_are_not_taken() -> None:
    proto = plant()
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0]), "s/places"))
    with pytest.warns(SeveralInputs):
        assert from_model(proto).input_dim == 4


def test_inputs_have_names_and_directions_too() -> None:
    with pytest.warns(SeveralInputs):
        network = from_model(plant())
    assert network.input_parts == {"s": 3, "u": 1}
    assert from_model(plant(), fixed={"u": 0}).input_parts == {"s": 3}
    assert network.fused().input_parts == networks.difference(network, network).input_parts
    box = Box(-1, 1, 4)
    for names, places in (("u", [3]), (["s"], [0, 1, 2]), (["u", "s"], [0, 1, 2, 3])):
        named = LipschitzProblem(network, box, output_norm="linf", wrt=names)
        numbered = LipschitzProblem(network, box, output_norm="linf", wrt=places)
        assert named.describe_norms() == numbered.describe_norms()
        assert lipyomo.solve(named).lower == lipyomo.solve(numbered).lower
    for wrong in ("v", ["s", "v"]):
        with pytest.raises(ProblemError, match="'s', 'u'"):
            LipschitzProblem(network, box, output_norm="linf", wrt=wrong)
    with pytest.raises(NetworkError, match="named inputs"):
        Network(network.layers, input_parts={"s": 3})
