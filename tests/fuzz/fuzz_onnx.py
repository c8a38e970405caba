"""Hostile networks as ONNX files: nodes, and beside them the same function in plain layers.

Nothing here comes from the importer.  Plain layers are never put together, so they hold what the
nodes hold, number for number; every rounding of an import shows as another network.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from fuzz_networks import Rng
from fuzz_oracle import PlainLayer
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


class Graph:
    """Nodes of a graph on a vector, and the plain layers that compute the same."""

    def __init__(self, rng: Rng, inputs: int) -> None:
        self.rng, self.width = rng, inputs
        self.dtype: type = np.float32 if rng.random() < 0.5 else np.float64
        self.numbers = str(rng.choice(["normal", "normal", "integer", "tenth", "cancelling"]))
        self.inputs, self.tensor = inputs, "x"
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.layers: list[PlainLayer] = []

    def draw(self, *shape: int) -> np.ndarray:
        """Numbers that the file can hold, as float64."""
        rng = self.rng
        if self.numbers == "integer":
            values = rng.integers(-2, 3, shape).astype(float)
        elif self.numbers == "tenth":
            values = rng.integers(-20, 21, shape) / 10.0
        elif self.numbers == "cancelling":
            values = rng.integers(-3, 4, shape) * 10.0 ** rng.integers(-3, 9, shape)
            values = np.where(rng.random(shape) < 0.5, values, rng.choice([0.1, 0.7], shape))
        else:
            values = rng.standard_normal(shape)
        return np.asarray(values, dtype=self.dtype).astype(float)

    def constant(self, values: np.ndarray, kind: type | None = None) -> str:
        name = f"c{len(self.stored)}"
        array = np.ascontiguousarray(values, dtype=kind or self.dtype)
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node; it reads the current tensor where no inputs are given."""
        name = f"t{len(self.nodes)}"
        given = list(inputs) if inputs else [self.tensor]
        self.nodes.append(helper.make_node(kind, given, [name], **attributes))
        self.tensor = name
        return name

    def layer(
        self,
        weight: np.ndarray,
        bias: np.ndarray | float = 0.0,
        left: np.ndarray | float = 1.0,
        right: np.ndarray | float = 1.0,
    ) -> None:
        n = len(weight)
        full = (np.broadcast_to(v, (n,)).astype(float) for v in (bias, left, right))
        self.layers.append(PlainLayer(np.asarray(weight, dtype=float), *full))
        self.width = n

    def units(self, left: np.ndarray | float, right: np.ndarray | float = 1.0) -> None:
        self.layer(np.eye(self.width), 0.0, left, right)

    def model(self) -> onnx.ModelProto:
        real = TensorProto.FLOAT if self.dtype is np.float32 else TensorProto.DOUBLE
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [helper.make_tensor_value_info("x", real, [1, self.inputs])],
            [helper.make_tensor_value_info(self.tensor, real, [1, self.width])],
            self.stored,
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def matmul(g: Graph, outputs: int | None = None) -> None:
    n = outputs or int(g.rng.integers(1, 4))
    weight = g.draw(n, g.width)
    g.node("MatMul", g.tensor, g.constant(weight.T))
    g.layer(weight)


def gemm(g: Graph, outputs: int | None = None) -> None:
    """``alpha x W^T + beta c``, whose coefficients no float64 matrix may hold."""
    n = outputs or int(g.rng.integers(1, 4))
    weight, bias = g.draw(n, g.width), g.draw(n)
    alpha = float(np.float32(g.rng.choice([1.0, 1.0, 0.5, 0.3, -3.0])))
    beta = float(g.rng.choice([1.0, 1.0, 2.0, -0.5, 0.0]))
    flip = bool(g.rng.random() < 0.5)
    stored = g.constant(weight if flip else weight.T)
    g.node("Gemm", g.tensor, stored, g.constant(bias), alpha=alpha, beta=beta, transB=int(flip))
    g.layer(weight)
    g.layer(alpha * np.eye(n), beta * bias)


def batch_norm(g: Graph) -> None:
    """With variances whose square roots are exact."""
    scale, bias, mean = g.draw(g.width), g.draw(g.width), g.draw(g.width)
    root = 2.0 ** g.rng.integers(-2, 3, g.width)
    stored = [g.constant(v) for v in (scale, bias, mean, root**2)]
    g.node("BatchNormalization", g.tensor, *stored, epsilon=0.0)
    g.layer(np.eye(g.width), -mean)
    g.layer(np.diag(scale / root), bias)


def arithmetic(g: Graph) -> None:
    """Sums, differences, products and quotients with constants."""
    values = g.draw(g.width)
    kind = str(g.rng.choice(["Add", "Sub", "Sub from", "Mul", "Div", "Neg"]))
    eye = np.eye(g.width)
    if kind == "Add":
        g.node("Add", g.tensor, g.constant(values))
        g.layer(eye, values)
    elif kind == "Sub":
        g.node("Sub", g.tensor, g.constant(values))
        g.layer(eye, -values)
    elif kind == "Sub from":
        g.node("Sub", g.constant(values), g.tensor)
        g.layer(-eye, values)
    elif kind == "Mul":
        g.node("Mul", g.constant(values), g.tensor)
        g.layer(np.diag(values))
    elif kind == "Div":  # reciprocals are rounded to float64, which is what the page promises
        values = g.rng.choice([2.0, 4.0, -0.5, 3.0], g.width)
        g.node("Div", g.tensor, g.constant(values))
        g.layer(np.diag(1.0 / values))
    else:
        g.node("Neg")
        g.layer(-eye)


def activation(g: Graph) -> None:
    """Relu, LeakyRelu, PRelu, Abs, Clip, Max and Min with a constant."""
    kind = str(g.rng.choice(["Relu", "Relu", "LeakyRelu", "PRelu", "Abs", "Clip", "Max", "Min"]))
    if kind == "Relu":
        g.node("Relu")
        g.units(0.0)
    elif kind == "LeakyRelu":
        alpha = float(np.float32(g.rng.choice([0.01, 0.25, -1.0, 1.0, 2.0])))
        g.node("LeakyRelu", alpha=alpha)
        g.units(alpha)
    elif kind == "PRelu":
        slope = g.draw(g.width)
        g.node("PRelu", g.tensor, g.constant(slope))
        g.units(slope)
    elif kind == "Abs":
        g.node("Abs")
        g.units(-1.0)
    elif kind == "Clip":
        low, high = (float(v) for v in np.float32([-0.3, g.rng.choice([0.7, 1.0, 6.0])]))
        g.node("Clip", g.tensor, g.constant(np.array(low)), g.constant(np.array(high)))
        g.layer(np.eye(g.width), -low, 0.0)
        g.layer(np.eye(g.width), low)
        g.layer(-np.eye(g.width), high, 0.0)
        g.layer(-np.eye(g.width), high)
    else:
        values, sign = g.draw(g.width), 1.0 if kind == "Max" else -1.0
        g.node(kind, g.tensor, g.constant(values))
        g.layer(sign * np.eye(g.width), -sign * values, 0.0)
        g.layer(sign * np.eye(g.width), values)


def residual(g: Graph) -> None:
    """``x + f(x)``, with or without units in f."""
    d, n, start = g.width, int(g.rng.integers(1, 3)), g.tensor
    up, bias, down = g.draw(n, d), g.draw(n), g.draw(d, n)
    g.node("Gemm", start, g.constant(up), g.constant(bias), transB=1)
    bent = g.rng.random() < 0.7
    if bent:
        g.node("Relu")
    branch = g.node("MatMul", g.tensor, g.constant(down.T))
    g.node("Add", start, branch)
    slopes = np.append(np.full(n, 0.0 if bent else 1.0), np.ones(d))
    g.layer(np.vstack([up, np.eye(d)]), np.append(bias, np.zeros(d)), slopes)
    g.layer(np.hstack([down, np.eye(d)]))


def maxima(g: Graph) -> None:
    """MaxPool of neighbours: ``max(a, b) = b + relu(a - b)``."""
    if g.width < 2:
        return matmul(g, 2)
    stride = int(g.rng.integers(1, 3))
    starts = np.arange(0, g.width - 1, stride)
    _as_image(g)
    g.node("MaxPool", kernel_shape=[2], strides=[stride])
    _as_vector(g, len(starts))
    eye, k = np.eye(g.width), len(starts)
    over = eye[starts + 1] - eye[starts]
    g.layer(np.vstack([over, eye[starts]]), 0.0, np.append(np.zeros(k), np.ones(k)))
    g.layer(np.hstack([np.eye(k), np.eye(k)]))
    return None


def conv(g: Graph) -> None:
    """A convolution with two channels along the vector; pads of zeros."""
    channels, size = int(g.rng.integers(1, 3)), int(g.rng.integers(1, min(3, g.width) + 1))
    weight, bias, pad = g.draw(channels, 1, size), g.draw(channels), int(g.rng.integers(0, 2))
    count = g.width + 2 * pad - size + 1
    _as_image(g)
    g.node(
        "Conv", g.tensor, g.constant(weight), g.constant(bias), pads=[pad, pad], kernel_shape=[size]
    )
    _as_vector(g, channels * count)
    rows = np.zeros((channels, count, g.width))
    for c, at, k in np.ndindex(channels, count, size):
        if 0 <= at + k - pad < g.width:
            rows[c, at, at + k - pad] = weight[c, 0, k]
    g.layer(rows.reshape(-1, g.width), np.repeat(bias, count))


def means(g: Graph) -> None:
    """AveragePool of pairs."""
    if g.width < 2:
        return matmul(g, 2)
    _as_image(g)
    g.node("AveragePool", kernel_shape=[2])
    _as_vector(g, g.width - 1)
    g.layer(0.5 * (np.eye(g.width)[1:] + np.eye(g.width)[:-1]))
    return None


def _as_image(g: Graph) -> None:
    g.node("Reshape", g.tensor, g.constant(np.array([1, 1, g.width]), np.int64))


def _as_vector(g: Graph, width: int) -> None:
    g.node("Reshape", g.tensor, g.constant(np.array([1, width]), np.int64))


STEPS: tuple[Callable[[Graph], None], ...] = (
    matmul, gemm, gemm, batch_norm, arithmetic, arithmetic, activation, activation, activation,
    residual, maxima, conv, means,
)  # fmt: skip
WIDEST = 8


def graph(rng: Rng) -> Graph:
    """A graph of some steps, with a linear one at the end."""
    g = Graph(rng, int(rng.integers(1, 4)))
    for _ in range(int(rng.integers(2, 7))):
        STEPS[int(rng.integers(0, len(STEPS)))](g)
        if g.width > WIDEST:
            matmul(g)
    (gemm if rng.random() < 0.5 else matmul)(g, int(rng.integers(1, 4)))
    return g
