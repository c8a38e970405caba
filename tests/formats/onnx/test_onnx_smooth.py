"""Smooth operators, alone, mixed and written out as products, against onnxruntime."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builder import DOUBLE, agrees, model, one
from scipy.special import erf, expit

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import check_against_runtime, from_model
from lipyomo.formats.onnx.check import CheckFailed
from lipyomo.formats.onnx.gates import RoundedConstant, SoftplusThreshold
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network

RNG = np.random.default_rng(5)
W, V = RNG.normal(size=(3, 6)), RNG.normal(size=(6, 2))

OPERATORS: list[tuple[str, dict[str, object], int, Callable[[np.ndarray], np.ndarray]]] = [
    ("Tanh", {}, 13, np.tanh),
    ("Sigmoid", {}, 13, expit),
    ("Softplus", {}, 1, lambda z: np.logaddexp(0, z)),
    ("Softsign", {}, 1, lambda z: z / (1 + abs(z))),
    ("Erf", {}, 13, erf),
    ("Sin", {}, 7, np.sin),
    ("Cos", {}, 7, np.cos),
    ("Mish", {}, 18, lambda z: z * np.tanh(np.logaddexp(0, z))),
    ("HardSwish", {}, 14, lambda z: z * np.clip(z / 6 + 0.5, 0, 1)),
    ("Elu", {}, 6, lambda z: np.where(z > 0, z, np.expm1(z))),
    ("Elu", {"alpha": 0.375}, 6, lambda z: np.where(z > 0, z, 0.375 * np.expm1(z))),
    ("Elu", {"alpha": -0.5}, 6, lambda z: np.where(z > 0, z, -0.5 * np.expm1(z))),
    ("Selu", {}, 6, lambda z: 1.05070102214813232 * np.where(z > 0, z, 1.673263192 * np.expm1(z))),
    (
        "Selu",
        {"alpha": 2.0, "gamma": 0.5},
        6,
        lambda z: 0.5 * np.where(z > 0, z, 2 * np.expm1(z)),
    ),
    ("Celu", {}, 12, lambda z: np.where(z > 0, z, np.expm1(z))),
    ("Celu", {"alpha": 0.5}, 12, lambda z: np.where(z > 0, z, 0.5 * np.expm1(z / 0.5))),
    ("Gelu", {}, 20, lambda z: 0.5 * z * (1 + erf(z * math.sqrt(0.5)))),
    (
        "Gelu",
        {"approximate": "tanh"},
        20,
        lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    ),
    ("Swish", {}, 24, lambda z: z * expit(z)),
    ("Swish", {"alpha": 1.5}, 24, lambda z: z * expit(1.5 * z)),
]


@pytest.mark.parametrize("case", OPERATORS, ids=lambda c: f"{c[0]}{c[1] or ''}")
@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, DOUBLE])
def test_operators_are_their_formulas(case: tuple, kind: int) -> None:
    op, attributes, opset, formula = case
    if op == "Celu" and kind == DOUBLE:
        pytest.skip("the standard has it for float32 only")
    proto = one(op, [2, 3], opset=max(opset, 13), kind=kind, **attributes)
    proto.ir_version = 9
    network = from_model(proto)
    assert network.hidden[-1].curved.all()
    x = RNG.normal(scale=3, size=(50, 6))
    np.testing.assert_allclose(network.forward(x), formula(x), atol=3e-7)


@pytest.mark.parametrize("op", ["Gelu", "QuickGelu"])
def test_operators_of_onnxruntime(op: str) -> None:
    proto = one(op, [2, 3], domain="com.microsoft")
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    agrees(proto, [2, 3])


def perceptron(*inner: onnx.NodeProto, constants: dict | None = None, **options) -> onnx.ModelProto:
    """``a = x W`` through nodes that make ``h``, and ``y = h V``."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        *inner,
        helper.make_node("MatMul", ["h", "v"], ["y"], name="last"),
    ]
    return model(nodes, ["N", 3], {"w": W, "v": V, **(constants or {})}, **options)


def nodes(*lines: str) -> list[onnx.NodeProto]:
    """Nodes from lines such as ``h = Mul(a, s)``."""
    made = []
    for line in lines:
        output, call = line.split(" = ")
        op, inputs = call.rstrip(")").split("(")
        names = [name.strip() for name in inputs.split(",")]
        made.append(helper.make_node(op, names, [output], name=f"{op}_{output}"))
    return made


SQRT2, PHI = math.sqrt(2.0), math.sqrt(2.0 / math.pi)
SCALARS = {
    "half": np.array(0.5),
    "one": np.array(1.0),
    "two": np.array(2.0),
    "three": np.array([3.0]),
    "six": np.array(6.0),
    "zero": np.array(0.0),
    "sqrt2": np.array(SQRT2),
    "phi": np.array(PHI),
    "cubic": np.array(0.044715),
    "quick": np.array(1.702),
    "minus": np.array(-1.0),
}

WRITTEN_OUT = {
    "SiLU": ("silu", ["s = Sigmoid(a)", "h = Mul(a, s)"]),
    "SiLU, turned round": ("silu", ["s = Sigmoid(a)", "h = Mul(s, a)"]),
    "QuickGelu": (None, ["b = Mul(a, quick)", "s = Sigmoid(b)", "h = Mul(a, s)"]),
    "SiLU by exp": (
        "silu",
        ["n = Neg(a)", "e = Exp(n)", "d = Add(e, one)", "h = Div(a, d)"],
    ),
    "x tanh x": ("swish(2.0)", ["t = Tanh(a)", "h = Mul(a, t)"]),
    "x sigmoid(-x)": ("silu", ["n = Neg(a)", "s = Sigmoid(n)", "h = Mul(a, s)"]),
    "GELU of PyTorch": (
        "gelu",
        ["d = Div(a, sqrt2)", "e = Erf(d)", "f = Add(e, one)", "g = Mul(a, f)", "h = Mul(g, half)"],
    ),
    "GELU of Keras": (
        "gelu",
        ["d = Div(a, sqrt2)", "e = Erf(d)", "f = Add(one, e)", "g = Mul(f, half)", "h = Mul(g, a)"],
    ),
    "GELU, half first": (
        "gelu",
        ["b = Mul(half, a)", "d = Div(a, sqrt2)", "e = Erf(d)", "f = Add(e, one)", "h = Mul(b, f)"],
    ),
    "GELU with tanh, by Pow": (
        "gelu(tanh)",
        [
            *("p = Pow(a, three)", "q = Mul(p, cubic)", "r = Add(a, q)", "s = Mul(r, phi)"),
            *("t = Tanh(s)", "u = Add(t, one)", "b = Mul(a, half)", "h = Mul(b, u)"),
        ],
    ),
    "GELU with tanh, by Mul": (
        "gelu(tanh)",
        [
            *("p2 = Mul(a, a)", "p = Mul(p2, a)", "q = Mul(cubic, p)", "r = Add(q, a)"),
            *("s = Mul(phi, r)", "t = Tanh(s)", "u = Add(one, t)", "v2 = Mul(u, half)"),
            "h = Mul(v2, a)",
        ],
    ),
    "GELU with tanh, factored": (
        "gelu(tanh)",
        [
            *("p2 = Mul(a, a)", "q = Mul(p2, cubic)", "r = Add(q, one)", "b = Mul(a, phi)"),
            *("s = Mul(b, r)", "t = Tanh(s)", "u = Add(t, one)", "c = Mul(a, u)"),
            "h = Mul(half, c)",
        ],
    ),
    "Mish": ("mish", ["s = Softplus(a)", "t = Tanh(s)", "h = Mul(a, t)"]),
    "Mish by exp and log": (
        "mish",
        ["e = Exp(a)", "f = Add(one, e)", "s = Log(f)", "t = Tanh(s)", "h = Mul(a, t)"],
    ),
    "softsign": ("softsign", ["b = Abs(a)", "d = Add(b, one)", "h = Div(a, d)"]),
    "HardSwish by Clip": (
        "hard_swish",
        ["b = Add(a, three)", "c = Clip(b, zero, six)", "d = Mul(a, c)", "h = Div(d, six)"],
    ),
    "softplus by exp and log": ("softplus", ["e = Exp(a)", "f = Add(e, one)", "h = Log(f)"]),
    "sigmoid by exp": (
        "sigmoid",
        ["n = Neg(a)", "e = Exp(n)", "f = Add(e, one)", "h = Reciprocal(f)"],
    ),
}


@pytest.mark.parametrize("case", WRITTEN_OUT)
@pytest.mark.filterwarnings("ignore::lipyomo.formats.onnx.gates.RoundedConstant")
def test_activations_that_are_written_out(case: str) -> None:
    name, lines = WRITTEN_OUT[case]
    network = agrees(perceptron(*nodes(*lines), constants=SCALARS), ["N", 3])
    beta = float(np.float32(1.702))
    assert network.activations == {name or f"swish({beta!r})": 6}
    others = case in ("x tanh x", "x sigmoid(-x)")  # an affine part is carried past the units
    assert network.sizes == ((3, 9, 6, 2) if others else (3, 6, 2))


def test_products_that_are_affine_beside_their_activation() -> None:
    proto = perceptron(*nodes("e = Tanh(a)", "m = Mul(e, a)", "h = Add(m, a)"))
    assert agrees(proto, ["N", 3]).activations == {"swish(2.0)": 6}


def test_a_written_out_activation_of_a_shifted_signal() -> None:
    """The bias is the same for all units: the signal may also be told as ``a + 0.25``."""
    lines = nodes("b = Add(a, shift)", "s = Sigmoid(b)", "h = Mul(b, s)")
    network = agrees(perceptron(*lines, constants={"shift": np.array([0.25])}), ["N", 3])
    assert network.activations == {"silu": 6}


def test_rounded_constants_are_told() -> None:
    lines = nodes(*WRITTEN_OUT["GELU of PyTorch"][1])
    with pytest.warns(RoundedConstant, match=r"node 'Mul_g' \(Mul\).*gelu"):
        from_model(perceptron(*lines, constants=SCALARS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_model(perceptron(*lines, constants=SCALARS, kind=DOUBLE))


def test_the_logarithm_of_a_rounded_sigmoid() -> None:
    """PyTorch's older exporter writes LogSigmoid so; onnxruntime's sigmoid is at least 1.5e-8."""
    proto = perceptron(*nodes("b = Mul(a, six)", "s = Sigmoid(b)", "h = Log(s)"), constants=SCALARS)
    network = from_model(proto)
    assert network.activations == {"softplus": 6}
    off = replace(network.layers[0], bias=network.layers[0].bias + 0.01)
    with pytest.raises(CheckFailed):
        check_against_runtime(Network([off, *network.layers[1:]], "off"), proto)


CUT = ("b = Mul(a, steep)", "s = Softplus(b)", "d = Div(s, steep)", "c = Greater(b, limit)")


def test_the_threshold_of_softplus() -> None:
    """PyTorch's newer exporter writes it; where it is a real jump, it is refused."""
    for where, limit in (("c, a, d", 20.0), ("c, a, d", 3.0), ("c, d, a", 20.0), ("c, b, d", 20.0)):
        given = {"steep": np.array(2.0), "limit": np.array(limit)}
        proto = perceptron(*nodes(*CUT, f"h = Where({where})"), constants=given)
        if where == "c, a, d" and limit == 20.0:
            with pytest.warns(SoftplusThreshold, match=r"node 'Where_h'"):
                assert agrees(proto, ["N", 3]).activations == {"softplus": 6}
        else:
            with pytest.raises(ImportRefused, match="Greater"):
                from_model(proto)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"sqrt2": np.array(1.4143)}, "GELU of PyTorch"),
        ({"cubic": np.array(0.0447)}, "GELU with tanh, by Pow"),
        ({"phi": np.array(0.8)}, "GELU with tanh, by Pow"),
        ({"three": np.array(4.0)}, "GELU with tanh, by Pow"),
        ({"one": np.array(2.0)}, "softsign"),
        ({"six": np.array(5.0)}, "HardSwish by Clip"),
        ({"one": np.array(1.001)}, "softplus by exp and log"),
        ({"half": RNG.normal(size=6), "phi": RNG.normal(size=6)}, "GELU with tanh, by Pow"),
    ],
)
def test_other_constants_make_other_functions(change: dict, lines: str) -> None:
    name, written = WRITTEN_OUT[lines]
    network = agrees(perceptron(*nodes(*written), constants={**SCALARS, **change}), ["N", 3])
    assert name not in network.activations
    assert {"square", "exp"} & set(network.activations)


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (["b = MatMul(a, w2)", "s = Sigmoid(b)", "h = Mul(a, s)"], "sigmoid square"),  # gating
        (["s = Softmax(a)", "h = Mul(a, s)"], "sigmoid softplus square"),
        (["s = Relu(a)", "t = Tanh(a)", "h = Mul(s, t)"], "square tanh"),
        (["p = Mul(a, a)", "h = Mul(p, a)"], "square"),
        (["p = Mul(a, a)", "h = MatMul(p, w2)"], "square"),
        (["s = Sigmoid(a)", "t = Tanh(a)", "h = Mul(s, t)"], "sigmoid square tanh"),
        (["e = Exp(a)", "h = Relu(e)"], "exp"),
        (["e = Exp(a)", "f = Add(e, e)", "h = Log(f)"], "exp log"),
        (["b = Abs(a)", "h = Div(a, b)"], "reciprocal square"),
        (["m = ReduceMean(a)", "d = Sub(a, m)", "s = Mul(d, d)", "h = Add(s, a)"], "square"),
        (["b = Mul(a, scales)", "s = Sigmoid(b)", "h = Mul(a, s)"], "sigmoid square"),
        (["h = LayerNormalization(a, scales)"], "rsqrt square"),
        (["q = Mul(a, a)", "b = Add(q, one6)", "r = Sqrt(b)", "h = Div(a, r)"], "rsqrt square"),
    ],
)
def test_products_that_are_no_activation(lines: list[str], kinds: str) -> None:
    given = {"w2": RNG.normal(size=(6, 6)), "scales": np.arange(1.0, 7.0), "one6": np.ones(6)}
    network = agrees(perceptron(*nodes(*lines), constants=given), ["N", 3])
    assert sorted(network.activations) == kinds.split()


@pytest.mark.parametrize(
    ("op", "attributes", "opset", "says"),
    [
        ("Elu", {"alpha": math.inf}, 17, "alpha"),
        ("Celu", {"alpha": 0.0}, 17, "positive"),
        ("Celu", {"alpha": -1.0}, 17, "positive"),
        ("Gelu", {"approximate": "cubic"}, 20, "cubic"),
        ("Swish", {"alpha": 0.0}, 24, "positive"),
        ("Selu", {"gamma": math.nan}, 17, "gamma"),
    ],
)
def test_bad_attributes_are_refused(op: str, attributes: dict, opset: int, says: str) -> None:
    with pytest.raises(ImportRefused, match=says):
        from_model(one(op, [1, 3], opset=opset, **attributes), check=False)


def test_sigmoid_minus_half_doubled_is_affine_in_the_units() -> None:
    lines = nodes("b = Mul(two, a)", "s = Sigmoid(b)", "t = Mul(s, two)", "h = Sub(t, one)")
    network = agrees(perceptron(*lines, constants=SCALARS), ["N", 3])
    x = RNG.normal(size=(9, 3))
    expected = np.tanh(x @ W.astype(np.float32)) @ V.astype(np.float32)
    np.testing.assert_allclose(network.forward(x), expected)


def test_mixed_units_residuals_and_branches() -> None:
    lines = nodes(
        "t = Tanh(a)", "r = Relu(a)", "s = Sigmoid(r)", "u = Add(t, a)", "c = Concat(u, s, r)"
    )
    lines[-1].attribute.append(helper.make_attribute("axis", 1))
    proto = perceptron(
        *lines, *nodes("h = MatMul(c, w3)"), constants={"w3": RNG.normal(size=(18, 6))}
    )
    network = agrees(proto, ["N", 3])
    assert network.activations == {"tanh": 6, "sigmoid": 6}
    assert network.kinked_units == 6


def test_convolutions_normalisations_and_pools() -> None:
    inner = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "g", "b", "m", "s"], ["n"]),
        helper.make_node("Sigmoid", ["n"], ["t"]),
        helper.make_node("Mul", ["n", "t"], ["z"]),
        helper.make_node("Add", ["z", "c"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"]),
    ]
    constants = {
        "k": RNG.normal(size=(3, 1, 3, 3)),
        **{key: RNG.uniform(0.5, 2.0, size=3) for key in "gbms"},
        "w": RNG.normal(size=(12, 2)),
    }
    network = agrees(model(inner, ["N", 1, 4, 4], constants), ["N", 1, 4, 4])
    assert network.activations == {"silu": 48}


def test_max_pooling_does_not_pass_smooth_units() -> None:
    inner = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node("MaxPool", ["s"], ["y"], kernel_shape=[2, 2]),
    ]
    agrees(model(inner, [1, 1, 4, 4]), [1, 1, 4, 4])


def test_a_final_sigmoid_is_a_unit_and_can_be_cut_off() -> None:
    proto = perceptron(*nodes("h = Tanh(a)"))
    proto.graph.node[-1].output[0] = "logits"
    proto.graph.node.append(helper.make_node("Sigmoid", ["logits"], ["y"]))
    whole, cut = from_model(proto), from_model(proto, output="logits")
    assert whole.activations == {"tanh": 6, "sigmoid": 2}
    x = RNG.normal(size=(5, 3))
    np.testing.assert_allclose(whole.forward(x), expit(cut.forward(x)))


def test_constants_of_an_activation_are_folded() -> None:
    lines = nodes("c = Sigmoid(w6)", "b = Add(a, c)", "h = Tanh(b)")
    agrees(perceptron(*lines, constants={"w6": RNG.normal(size=6)}), ["N", 3])


def test_half_precision() -> None:
    proto = one("Tanh", [1, 4], kind=onnx.TensorProto.FLOAT16)
    assert from_model(proto).activations == {"tanh": 4}


def test_another_activation_is_noticed() -> None:
    proto = perceptron(helper.make_node("Gelu", ["a"], ["h"]), opset=20)
    proto.ir_version = 9
    network = from_model(proto)
    kind = activation("gelu", approximate="tanh")
    first = network.layers[0]
    other = Network(
        [Layer(first.weight, first.bias, curves=[Curve(kind, range(6))]), network.layers[1]]
    )
    with pytest.raises(CheckFailed):
        check_against_runtime(other, proto)
