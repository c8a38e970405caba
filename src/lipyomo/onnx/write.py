"""Networks back to ONNX."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnx.helper
from onnx import numpy_helper

from lipyomo.errors import NetworkError
from lipyomo.network import FloatArray, Layer, Network, check_network
from lipyomo.onnx.read import PathLike
from lipyomo.outputs import MODEL, written
from lipyomo.version import __version__

OPSET = 17
IR_VERSION = 8


def _fits_float32(network: Network) -> bool:
    """Whether all numbers of a network are float32 numbers."""
    for layer in network.layers:
        weight = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.data
        for numbers in (weight, layer.bias, layer.left, layer.right):
            largest = np.abs(numbers).max(initial=0.0)
            if largest > np.finfo(np.float32).max:
                return False
            if not np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers):
                return False
    return True


class _Writer:
    """Nodes and initializers of the graph that is being written."""

    def __init__(self, dtype: type[np.floating]) -> None:
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def store(self, name: str, values: FloatArray) -> str:
        """Add an initializer."""
        self.initializers.append(numpy_helper.from_array(values.astype(self.dtype), name))
        return name

    def node(self, op_type: str, inputs: list[str], output: str, **attributes: int | float) -> str:
        """Add a node with one output."""
        name = output.replace(".", "_")
        self.nodes.append(onnx.helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def affine(self, layer: Layer, source: str, label: str, output: str) -> str:
        """``x W^T + b``."""
        weight = self.store(f"{label}.weight", layer.dense_weight)
        bias = self.store(f"{label}.bias", layer.bias)
        return self.node("Gemm", [source, weight, bias], output, alpha=1.0, beta=1.0, transB=1)

    def units(self, layer: Layer, source: str, label: str) -> str:
        """The two-slope units of a layer, by the plainest operator that has their slopes."""
        left, right = layer.left, layer.right
        if (right == 1.0).all():
            if (left == 0.0).all():
                return self.node("Relu", [source], f"{label}.relu")
            if (left == -1.0).all():
                return self.node("Abs", [source], f"{label}.abs")
            if (left == left[0]).all() and float(np.float32(left[0])) == left[0]:
                return self.node("LeakyRelu", [source], f"{label}.leaky", alpha=float(left[0]))
        if all(_exact_ratio(a, b) for a, b in zip(left, right, strict=True)):
            slope = self.store(f"{label}.slope", left / right)
            bent = self.node("PRelu", [source, slope], f"{label}.prelu")
            if (right == 1.0).all():
                return bent
            return self.node("Mul", [bent, self.store(f"{label}.right", right)], f"{label}.units")
        return self._two_sides(layer, source, label)

    def _two_sides(self, layer: Layer, source: str, label: str) -> str:
        """``right * relu(z) - left * relu(-z)``: exact for any two slopes."""
        above = self.node("Relu", [source], f"{label}.above")
        minus = self.node("Neg", [source], f"{label}.minus")
        below = self.node("Relu", [minus], f"{label}.below")
        right = self.store(f"{label}.right", layer.right)
        left = self.store(f"{label}.left", layer.left)
        first = self.node("Mul", [above, right], f"{label}.right_part")
        second = self.node("Mul", [below, left], f"{label}.left_part")
        return self.node("Sub", [first, second], f"{label}.units")


def _exact_ratio(left: float, right: float) -> bool:
    """Whether the float ``left / right`` times `right` is exactly `left`."""
    return right != 0.0 and Fraction(left / right) * Fraction(right) == Fraction(left)


def to_onnx(network: Network, path: PathLike | None = None) -> onnx.ModelProto:
    """Turn a network into an ONNX model.

    Parameters
    ----------
    network : Network
    path : str or path-like, optional
        Where to write it.

    Returns
    -------
    onnx.ModelProto
        Input ``x`` of shape (batch, d), output ``y`` of shape (batch, m).  Numbers are float32
        if every one of them is a float32 number, and float64 otherwise, so that nothing is rounded.
        Units become Relu, Abs, LeakyRelu or PRelu; other slopes a pair of Relu.

    Raises
    ------
    NetworkError
        If this is no network.
    OutputError
        If the file cannot be written, or holds something else than a model.
    """
    check_network(network, NetworkError)
    dtype = np.float32 if _fits_float32(network) else np.float64
    kind = onnx.TensorProto.FLOAT if dtype is np.float32 else onnx.TensorProto.DOUBLE
    writer = _Writer(dtype)
    tensor = "x"
    for position, layer in enumerate(network.hidden):
        label = f"layer{position}"
        z = writer.affine(layer, tensor, label, f"{label}.z")
        tensor = writer.units(layer, z, label)
    writer.affine(network.head, tensor, "head", "y")
    graph = onnx.helper.make_graph(
        writer.nodes,
        network.name,
        [onnx.helper.make_tensor_value_info("x", kind, ["batch", network.input_dim])],
        [onnx.helper.make_tensor_value_info("y", kind, ["batch", network.output_dim])],
        writer.initializers,
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="lipyomo",
        producer_version=__version__,
    )
    onnx.checker.check_model(model)
    if path is not None:
        with written(path, MODEL) as stream:
            stream.write(model.SerializeToString())
    return model


def write(network: Network, path: PathLike) -> None:
    """Write a network to an ONNX file (see `to_onnx`)."""
    to_onnx(network, path)
