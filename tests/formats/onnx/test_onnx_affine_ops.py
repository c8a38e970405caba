"""Affine operators compute what onnxruntime computes, and never make units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import DOUBLE, agrees, model, one

from lipyomo.formats.onnx import from_model

RNG = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


AFFINE = {
    "gemm": (one("Gemm", ["N", 4], draw(4, 3), draw(3)), ["N", 4]),
    "gemm-no-bias": (one("Gemm", ["N", 4], draw(4, 3), alpha=0.5), ["N", 4]),
    "gemm-transB": (one("Gemm", [2, 4], draw(3, 4), draw(1, 3), transB=1, beta=0.3), [2, 4]),
    "gemm-transA": (one("Gemm", [4, 2], draw(4, 3), draw(2, 1), transA=1, alpha=2.0), [4, 2]),
    "matmul": (one("MatMul", ["N", 4], draw(4, 3)), ["N", 4]),
    "matmul-vector": (one("MatMul", [3, 4], draw(4)), [3, 4]),
    "matmul-of-vector": (one("MatMul", [4], draw(4, 3)), [4]),
    "matmul-inner": (one("MatMul", [4], draw(4)), [4]),
    "matmul-batch": (one("MatMul", [2, 3, 4], draw(4, 5)), [2, 3, 4]),
    "matmul-batch-weight": (one("MatMul", [3, 4], draw(2, 4, 5)), [3, 4]),
    "matmul-both-batches": (one("MatMul", [2, 1, 3, 4], draw(5, 4, 2)), [2, 1, 3, 4]),
    "add-wide": (one("Add", [1, 3], draw(4, 3)), [1, 3]),
    "sub": (one("Sub", [2, 3], draw(3)), [2, 3]),
    "mul": (one("Mul", [2, 3], draw(2, 1)), [2, 3]),
    "mul-zero": (one("Mul", [2, 3], np.array([0.0, 1.0, 2.0])), [2, 3]),
    "div": (one("Div", [2, 3], draw(3)), [2, 3]),
    "neg": (one("Neg", [2, 3]), [2, 3]),
    "lower": (one("Trilu", [2, 3, 3], upper=0), [2, 3, 3]),
    "upper": (one("Trilu", [3, 4], np.array(-1)), [3, 4]),
    **{
        f"sums-{back}-{rest}": (
            one("CumSum", [2, 3, 4], np.array(axis), reverse=back, exclusive=rest),
            [2, 3, 4],
        )
        for axis, back, rest in ((1, 0, 0), (-1, 0, 1), (0, 1, 0), (2, 1, 1))
    },
    "sums-of-vector": (one("CumSum", [4], np.array([0])), [4]),
    "sum": (one("Sum", [2, 3], draw(3), draw(2, 3)), [2, 3]),
    "mean": (one("Mean", [2, 3], draw(3), draw(2, 3)), [2, 3]),
    "batchnorm": (
        one("BatchNormalization", ["N", 3, 2], draw(3), draw(3), draw(3), draw(3) ** 2 + 0.1),
        ["N", 3, 2],
    ),
    "batchnorm-flat": (
        one(
            "BatchNormalization",
            ["N", 3],
            *(draw(3), draw(3), draw(3), draw(3) ** 2 + 0.1),
            epsilon=1e-2,
        ),
        ["N", 3],
    ),
    "reduce-mean": (one("ReduceMean", [1, 3, 4, 2], axes=[2, 3], keepdims=0), [1, 3, 4, 2]),
    "reduce-mean-18": (
        one("ReduceMean", [1, 3, 4], np.array([1, -1]), opset=18),
        [1, 3, 4],
    ),
    "reduce-sum": (one("ReduceSum", [1, 3, 4], np.array([1]), keepdims=1), [1, 3, 4]),
    "reduce-sum-all": (one("ReduceSum", [1, 3, 4]), [1, 3, 4]),
    "reduce-none-Sum": (
        one("ReduceSum", [2, 3], np.zeros(0, dtype=np.int64), opset=20, noop_with_empty_axes=1),
        [2, 3],
    ),
    "reduce-none-Mean": (
        one("ReduceMean", [2, 3], np.zeros(0, dtype=np.int64), opset=20, noop_with_empty_axes=1),
        [2, 3],
    ),
    "reduce-none-Max": (
        one("ReduceMax", [2, 3], np.zeros(0, dtype=np.int64), opset=20, noop_with_empty_axes=1),
        [2, 3],
    ),
    "global-average": (one("GlobalAveragePool", ["N", 3, 4, 2]), ["N", 3, 4, 2]),
    "where": (
        model(
            [helper.make_node("Where", ["m", "x", "c"], ["y"])],
            [2, 3],
            {"m": np.array([True, False, True]), "c": draw(2, 3)},
        ),
        [2, 3],
    ),
}


@pytest.mark.parametrize("case", AFFINE, ids=str)
def test_affine_operators(case: str) -> None:
    proto, shape = AFFINE[case]
    assert agrees(proto, shape).kinked_units == 0


def test_matmul_with_the_constant_on_the_left() -> None:
    for weight, shape in ((draw(5, 3), [3, 2]), (draw(3), [3, 2]), (draw(5, 3), [3])):
        node = helper.make_node("MatMul", ["w", "x"], ["y"])
        agrees(model([node], shape, {"w": weight}), shape)


def test_constant_minuend_and_dividend_side() -> None:
    node = helper.make_node("Sub", ["c", "x"], ["y"])
    agrees(model([node], [2, 3], {"c": draw(3)}), [2, 3])
    node = helper.make_node("Mul", ["c", "x"], ["y"])
    agrees(model([node], [2, 3], {"c": draw(3)}), [2, 3])


def test_residual_sum_cancels() -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["two"]),
        helper.make_node("Sub", ["two", "x"], ["one"]),
        helper.make_node("Sub", ["one", "x"], ["y"]),
    ]
    network = agrees(model(nodes, ["N", 3]), ["N", 3])
    assert not network.head.dense_weight.any()


conv_shapes = st.tuples(
    st.integers(1, 2),  # groups
    st.integers(1, 2),  # channels a group
    st.integers(1, 2),  # outputs a group
    st.integers(4, 7),  # height
    st.integers(4, 7),  # width
    st.integers(1, 3),  # kernel
    st.integers(1, 3),  # kernel
    st.integers(1, 3),  # stride
    st.integers(1, 2),  # dilation
    st.integers(0, 2),  # pad before
    st.integers(0, 1),  # pad after
    st.booleans(),  # bias
)


@settings(max_examples=20, deadline=None)
@given(conv_shapes)
def test_conv(shape: tuple) -> None:
    groups, channels, outputs, height, width, k1, k2, stride, dilation, low, high, bias = shape
    weight = draw(groups * outputs, channels, k1, k2)
    proto = one(
        "Conv",
        ["N", groups * channels, height, width],
        weight,
        draw(groups * outputs) if bias else None,
        group=groups,
        strides=[stride, 1],
        dilations=[1, dilation],
        pads=[low, 0, high, 1],
    )
    agrees(proto, [1, groups * channels, height, width])


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_auto_pad(auto: str, stride: int) -> None:
    shape = [1, 2, 6, 7]
    proto = one("Conv", shape, draw(3, 2, 2, 3), auto_pad=auto, strides=[stride, stride])
    agrees(proto, shape)


def test_conv_one_axis_and_double() -> None:
    agrees(one("Conv", ["N", 2, 9], draw(3, 2, 3), draw(3), pads=[1, 1]), ["N", 2, 9])
    shape = ["N", 4]
    network = agrees(one("Gemm", shape, draw(4, 3), draw(3), kind=DOUBLE), shape, rtol=1e-13)
    assert network.sizes == (4, 3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 0]},
        {"dilations": [2, 1], "group": 2},
        {"strides": [2, 2], "output_shape": [8, 5]},
    ],
    ids=str,
)
def test_conv_transpose(options: dict) -> None:
    shape = [1, 4, 4, 3]
    agrees(one("ConvTranspose", shape, draw(4, 2, 3, 2), **options), shape)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(4, 8),
    st.integers(4, 8),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_average_pool(
    height: int, width: int, k1: int, k2: int, stride: int, padded: bool, count: bool, ceil: bool
) -> None:
    pads = [min(1, k1 - 1), 0, min(1, k1 - 1), min(1, k2 - 1)] if padded else [0, 0, 0, 0]
    shape = [1, 2, height, width]
    proto = one(
        "AveragePool",
        shape,
        kernel_shape=[k1, k2],
        strides=[stride, stride],
        pads=pads,
        count_include_pad=int(count),
        ceil_mode=int(ceil),
        opset=19,
    )
    assert agrees(proto, shape).kinked_units == 0


def test_old_broadcasting_along_an_axis() -> None:
    """Before opset 7 the second operand could start at an axis of the first."""
    weight = draw(3)
    proto = one("Add", [1, 3, 2], weight, opset=6, broadcast=1, axis=1)
    network = from_model(proto, check=False)
    points = draw(5, 6)
    expected = points.reshape(5, 3, 2) + weight.astype(np.float32)[:, None]
    np.testing.assert_allclose(network.forward(points), expected.reshape(5, 6), rtol=1e-6)


def test_half_precision_weights_are_exact() -> None:
    weight = draw(4, 3).astype(np.float16)
    nodes = [
        helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = model(nodes, ["N", 4])
    proto.graph.initializer.append(numpy_helper.from_array(weight, "h"))
    network = agrees(proto, ["N", 4])
    assert np.array_equal(network.head.dense_weight, weight.T.astype(np.float64))


def test_half_precision_model() -> None:
    proto = one("Gemm", ["N", 4], draw(4, 3), draw(3))
    for tensor in proto.graph.initializer:
        half = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    assert from_model(proto).sizes == (4, 3)


def test_scaler_and_linear_regressor() -> None:
    ml = {"domain": "ai.onnx.ml", "ml": 2}
    agrees(one("Scaler", ["N", 3], offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 1.0], **ml), ["N", 3])
    agrees(one("Scaler", ["N", 3], offset=[1.0], scale=[0.5], **ml), ["N", 3])
    agrees(one("FeatureVectorizer", ["N", 3], inputdimensions=[3], **ml), ["N", 3])
    imputed = {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}
    agrees(one("Imputer", ["N", 3], **imputed, **ml), ["N", 3])
    proto = one(
        "LinearRegressor",
        ["N", 3],
        coefficients=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        intercepts=[0.5, -0.5],
        targets=2,
        **ml,
    )
    agrees(proto, ["N", 3])
