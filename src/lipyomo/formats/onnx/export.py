"""Export of networks to ONNX."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast

import numpy as np
import onnx
import onnx.helper
from flint import fmpz_poly
from onnx import numpy_helper

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.base.system.outputs import MODEL, written
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.onnx.lower.units import SMOOTH
from lipyomo.formats.onnx.read import PathLike
from lipyomo.formats.onnx.select import NAMES
from lipyomo.networks.activations import (
    Activation,
    Celu,
    Elu,
    Exp,
    Log,
    Power,
    Softplus,
    Swish,
    activation,
)
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.families import SLOPE, SiluFamily, TanhFamily, polynomial
from lipyomo.networks.layer import square_pairs
from lipyomo.networks.network import Layer, Network, check_network
from lipyomo.version import __version__

OPSET = 17
"""Operator set of exported models, unless an operator needs a later one."""

LATER = {"Mish": 18, "Gelu": 20}
"""Operators that were added to later operator sets."""

COMPLETE_OPSET = max(LATER.values())
"""First operator set with all activations, so that none is expanded with rounded constants."""


def _parameters(kind: Activation) -> dict[str, Any]:
    """Return the parameters of an activation by name."""
    return {field.name: getattr(kind, field.name) for field in fields(cast(Any, kind))}


def _fits_float32(network: Network) -> bool:
    """Return whether all numbers of a network are float32 numbers."""
    for layer in network.layers:
        weight = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.data
        slopes = [side[~layer.curved] for side in (layer.left, layer.right)]
        given = [v for c in layer.curves for v in _parameters(c.activation).values()]
        parameters = np.array([value for value in given if isinstance(value, float)])
        for numbers in (weight, layer.bias, *slopes, parameters):
            largest = np.abs(numbers).max(initial=0.0)
            if largest > np.finfo(np.float32).max:
                return False
            if not np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers):
                return False
    return True


class _Writer:
    """Nodes and initializers of a graph under construction."""

    def __init__(self, dtype: type[np.floating]) -> None:
        self.dtype = dtype
        self.opset = OPSET
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def store(self, name: str, values: FloatArray) -> str:
        """Add an initializer."""
        self.initializers.append(numpy_helper.from_array(values.astype(self.dtype), name))
        return name

    def node(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node with one output."""
        name = output.replace(".", "_")
        self.nodes.append(onnx.helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def affine(self, layer: Layer, source: str, label: str, output: str) -> str:
        """Add ``x W^T + b``."""
        weight = self.store(f"{label}.weight", layer.dense_weight)
        bias = self.store(f"{label}.bias", layer.bias)
        return self.node("Gemm", [source, weight, bias], output, alpha=1.0, beta=1.0, transB=1)

    def layer(
        self, layer: Layer, source: str, label: str, after: FloatArray
    ) -> tuple[str, IntArray]:
        """Add the units of a layer, and return their tensor and order.

        Units with the same activation are grouped: each group is a Gemm and its operators.  If two
        squares have opposite columns in the next weight, `after`, they are written as a product,
        and only the first one appears in the order.
        """
        sums, differences = np.array(square_pairs(layer, after), dtype=np.intp).reshape(-1, 2).T
        both = np.concatenate([sums, differences])
        kinds = [(c.activation, np.setdiff1d(c.units, both)) for c in layer.curves]
        kinds = [(kind, units) for kind, units in kinds if units.size]
        plain = np.flatnonzero(~layer.curved)
        some = plain.size or not (kinds or sums.size)
        parts = [*kinds, *([(None, plain)] if some else [])]
        written = []
        if sums.size:
            written.append(self.products(layer, (sums, differences), source, f"{label}.products"))
        alone = len(parts) == 1 and not sums.size
        for position, (kind, units) in enumerate(parts):
            own = label if alone else f"{label}.part{position}"
            part = layer.selected(units)
            z = self.affine(part, source, own, f"{own}.z")
            units_of = self.units(part, z, own) if kind is None else self.smooth(kind, z, own)
            written.append(units_of)
        order = np.concatenate([sums, *(units for _, units in parts)])
        if len(written) == 1:
            return written[0], order
        return self.node("Concat", written, f"{label}.joined", axis=1), order

    def products(
        self, layer: Layer, pairs: tuple[IntArray, IntArray], source: str, label: str
    ) -> str:
        """Add ``p**2 - q**2 = (p + q) (p - q)`` of units p and q."""
        p, q = (
            self.affine(layer.selected(units), source, f"{label}.{name}", f"{label}.{name}.z")
            for units, name in zip(pairs, "pq", strict=True)
        )
        left = self.node("Add", [p, q], f"{label}.left")
        right = self.node("Sub", [p, q], f"{label}.right")
        return self.node("Mul", [left, right], f"{label}.units")

    def smooth(self, kind: Activation, source: str, label: str) -> str:
        """Add units of a smooth activation.

        Raises
        ------
        NetworkError
            If no operator represents its parameters exactly.
        """
        output = f"{label}.units"
        if isinstance(kind, Swish | Softplus):
            scaled, beta = source, f"{label}.beta"
            if kind.beta != 1.0:
                self.store(beta, np.array(kind.beta))
                scaled = self.node("Mul", [source, beta], f"{label}.scaled")
            if isinstance(kind, Swish):
                gate = self.node("Sigmoid", [scaled], f"{label}.gate")
                return self.node("Mul", [source, gate], output)
            if kind.beta == 1.0:
                return self.node("Softplus", [source], output)
            bent = self.node("Softplus", [scaled], f"{label}.bent")
            return self.node("Div", [bent, beta], output)
        operators = {type(activation(name)): operator for operator, (name, _) in SMOOTH.items()}
        if type(kind) not in operators:
            if _spelt(self, kind.true, source, label):
                return output
            raise NetworkError(f"the activation {kind.name} has no operator in ONNX")
        if isinstance(kind, Celu) and self.dtype is np.float64:
            if kind.alpha != 1.0:
                raise NetworkError(
                    f"the activation {kind.name} cannot be written to ONNX, which has Celu for "
                    "float32 numbers only.  Remedy: round the weights to float32"
                )
            kind = Elu()
        operator = operators[type(kind)]
        self.opset = max(self.opset, LATER.get(operator, OPSET))
        attributes = _parameters(kind)
        for key, value in attributes.items():
            if isinstance(value, float) and float(np.float32(value)) != value:
                raise NetworkError(
                    f"the activation {kind.name} cannot be written to ONNX: attributes are float32 "
                    f"there, and {key} = {value!r} is no float32 number.  Remedy: round it"
                )
        return self.node(operator, [source], output, **attributes)

    def units(self, layer: Layer, source: str, label: str) -> str:
        """Add the two-slope units of a layer, by the simplest operator for their slopes."""
        left, right = layer.left, layer.right
        if (right == 1.0).all():
            if (left == 1.0).all():
                return source
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
        """Add ``right * relu(z) - left * relu(-z)``, which is exact for any two slopes."""
        above = self.node("Relu", [source], f"{label}.above")
        minus = self.node("Neg", [source], f"{label}.minus")
        below = self.node("Relu", [minus], f"{label}.below")
        right = self.store(f"{label}.right", layer.right)
        left = self.store(f"{label}.left", layer.left)
        first = self.node("Mul", [above, right], f"{label}.right_part")
        second = self.node("Mul", [below, left], f"{label}.left_part")
        return self.node("Sub", [first, second], f"{label}.units")


def _exact_ratio(left: float, right: float) -> bool:
    """Return whether the float ``left / right`` times `right` is exactly `left`."""
    return right != 0.0 and Fraction(left / right) * Fraction(right) == Fraction(left)


# -- activations without an operator -------------------------------------------------------------


def _spelt(nodes: _Writer, kind: Activation, z: str, label: str) -> bool:
    """Add ``kind(z)`` as the tensor ``label.units`` if its constants are exact; return whether.

    Parameters
    ----------
    nodes : _Writer
    kind : Activation
        A power, exp, log, or a derivative of tanh or SiLU: polynomials of these, and of the
        logistic function.  Derivatives of erf and GELU have constants that would be rounded.
    z : str
        Tensor of pre-activations.
    label : str
    """
    output = f"{label}.units"
    if isinstance(kind, Power):
        _power(nodes, kind.exponent, z, label)
    elif isinstance(kind, Exp | Log):
        nodes.node("Exp" if isinstance(kind, Exp) else "Log", [z], output)
    elif isinstance(kind, Derivative) and isinstance(kind.family, TanhFamily):
        t = nodes.node("Tanh", [z], f"{label}.tanh")
        _polynomial(nodes, SLOPE * polynomial(kind.order), t, label, output)
    elif isinstance(kind, Derivative) and isinstance(kind.family, SiluFamily):
        s = nodes.node("Sigmoid", [z], f"{label}.sigmoid")
        many, own = kind.order * _logistic(kind.order - 1), _logistic(kind.order)
        first = _polynomial(nodes, many, s, f"{label}.first", f"{label}.first")
        second = _polynomial(nodes, own, s, f"{label}.second", f"{label}.second")
        moved = nodes.node("Mul", [z, second], f"{label}.moved")
        nodes.node("Add", [first, moved], output)
    else:
        return False
    return True


def _power(nodes: _Writer, exponent: float, z: str, label: str) -> None:
    output = f"{label}.units"
    if exponent == 2.0:
        nodes.node("Mul", [z, z], output)
    elif exponent in (0.5, -1.0):
        nodes.node("Sqrt" if exponent == 0.5 else "Reciprocal", [z], output)
    else:
        nodes.node("Pow", [z, nodes.store(f"{label}.exponent", np.array(exponent))], output)


def _logistic(order: int) -> fmpz_poly:
    """Return a derivative of the logistic function l as a polynomial in l: ``l' = l - l**2``."""
    found = fmpz_poly([0, 1])
    for _ in range(order):
        found = fmpz_poly([0, 1, -1]) * found.derivative()
    return found


def _polynomial(nodes: _Writer, polynomial: fmpz_poly, x: str, label: str, output: str) -> str:
    """Add a polynomial by Horner's rule."""
    *rest, last = map(float, polynomial.coeffs())
    found = nodes.store(f"{label}.c{len(rest)}", np.array(last))
    for k in range(len(rest) - 1, -1, -1):
        done = k == 0 and not rest[0]
        found = nodes.node("Mul", [found, x], output if done else f"{label}.times{k}")
        if rest[k]:
            term = nodes.store(f"{label}.c{k}", np.array(rest[k]))
            found = nodes.node("Add", [found, term], output if k == 0 else f"{label}.plus{k}")
    return found


@with_one_blas_thread
def to_onnx(network: Network, path: PathLike | None = None) -> onnx.ModelProto:
    """Convert a network to an ONNX model.

    Parameters
    ----------
    network : Network
    path : str or path-like, optional
        File to be written.

    Returns
    -------
    onnx.ModelProto
        Input ``x`` of shape (batch, d), output ``y`` of shape (batch, m).  The type is float32 if
        all numbers are float32 numbers, otherwise float64, so that nothing is rounded.  Two-slope
        units become Relu, Abs, LeakyRelu, PRelu or a pair of Relu, smooth units their operators.
        Products become Mul; derivatives of tanh, sigmoid and SiLU are polynomials.

    Raises
    ------
    NetworkError
        If `network` is none, or an activation has parameters that ONNX would round.
    OutputError
        If the file cannot be written, or an existing one is no model.
    """
    check_network(network, NetworkError)
    dtype = np.float32 if _fits_float32(network) else np.float64
    kind = onnx.TensorProto.FLOAT if dtype is np.float32 else onnx.TensorProto.DOUBLE
    writer = _Writer(dtype)
    tensor, order = "x", np.arange(network.input_dim)
    for position, (layer, after) in enumerate(pairwise(network.layers)):
        ordered = layer.with_map(layer.weight[:, order], layer.bias)
        tensor, order = writer.layer(ordered, tensor, f"layer{position}", after.dense_weight)
    head = network.head.with_map(network.head.weight[:, order], network.head.bias)
    writer.affine(head, tensor, "head", "y")
    graph = onnx.helper.make_graph(
        writer.nodes,
        network.name,
        [onnx.helper.make_tensor_value_info("x", kind, ["batch", network.input_dim])],
        [onnx.helper.make_tensor_value_info("y", kind, ["batch", network.output_dim])],
        writer.initializers,
    )
    opset = [onnx.helper.make_opsetid("", writer.opset)]
    model = onnx.helper.make_model(
        graph,
        opset_imports=opset,
        ir_version=onnx.helper.find_min_ir_version_for(opset),
        producer_name="lipyomo",
        producer_version=__version__,
    )
    if network.input_names is not None:
        onnx.helper.set_model_props(model, {NAMES: json.dumps(network.input_names)})
    onnx.checker.check_model(model)
    if path is not None:
        with written(path, MODEL) as stream:
            stream.write(model.SerializeToString())
    return model


@with_one_blas_thread
def write(network: Network, path: PathLike) -> None:
    """Write a network to an ONNX file (see `to_onnx`)."""
    to_onnx(network, path)
