"""Constant folding, in float64, and prediction of the sizes of a node's outputs before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.checker import ValidationError
from onnx.defs import SchemaError, get_schema
from onnx.shape_inference import InferenceError, infer_node_outputs

from lipyomo.base.system.memory import CACHED
from lipyomo.formats.onnx.graph import EVALUATOR_ERRORS, Array, GraphNode, real_array
from lipyomo.networks.building.budget import ENTRY, NUMBER, budget

Argument = TypeVar("Argument")


def _stored(array: Array, name: str) -> onnx.TensorProto:
    """Convert a constant to a stored tensor; scalars have no axes there."""
    found = numpy_helper.from_array(np.ascontiguousarray(array), name)
    if array.ndim == 0:
        found.ClearField("dims")
    return found


def forecast(
    node: GraphNode, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]
) -> list[tuple[int, ...]] | None:
    """Infer the shapes of a node's outputs from those of its inputs; None if unknown.

    Parameters
    ----------
    node : GraphNode
    shapes : mapping of str to tuple of int
        Of all inputs.
    constants : mapping of str to ndarray
        The inputs that are constant.
    """
    kinds: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name, shape in shapes.items():
        array, kind = constants.get(name), onnx.TensorProto.DOUBLE
        if array is not None:
            little = array.nbytes <= CACHED and array.dtype.kind in "iufb"
            if little and array.dtype.kind == "f" and node.op_type in ("Resize", "Upsample"):
                array = array.astype(np.float32)  # scales are float32 by definition
            try:
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            except (KeyError, ValueError):
                return None
            if little:
                data[name] = _stored(array, name)
        kinds[name] = onnx.helper.make_tensor_type_proto(kind, shape)
    try:
        schema = get_schema(node.op_type, node.version, node.domain)
        found = infer_node_outputs(
            schema,
            node.proto,
            kinds,
            data,
            opset_imports=[onnx.helper.make_operatorsetid(node.domain, node.version)],
            ir_version=8,
        )
    except (SchemaError, InferenceError, ValidationError, ValueError, RuntimeError, TypeError):
        return None
    result = []
    for name in node.outputs:
        if not name:
            continue
        if name not in found or not found[name].tensor_type.HasField("shape"):
            return None
        dims = found[name].tensor_type.shape.dim
        if not all(dim.HasField("dim_value") for dim in dims):
            return None
        result.append(tuple(int(dim.dim_value) for dim in dims))
    return result


def present(node: GraphNode, arguments: Sequence[Argument | None]) -> dict[str, Argument]:
    """Return the arguments of a node that are not omitted, by name."""
    pairs = zip(node.inputs, arguments, strict=True)
    return {name: value for name, value in pairs if value is not None and name}


def entry_count(shape: tuple[int, ...]) -> float:
    """Return the number of entries as a float."""
    return math.prod(map(float, shape))


class Expected(NamedTuple):
    """The sizes of a node's arguments and outputs.

    Attributes
    ----------
    given : list of tuple of int
        Shapes of the arguments that are not omitted.
    made : list of tuple of int, or None
        Shapes of the outputs, if they are known.
    entries : float
        Number of entries of all outputs.
    """

    given: list[tuple[int, ...]]
    made: list[tuple[int, ...]] | None
    entries: float


def expect(node: GraphNode, arguments: Sequence[Any], unknown: float = 0.0) -> Expected:
    """Charge the budget for the outputs of a node, before they are computed.

    Parameters
    ----------
    node : GraphNode
    arguments : sequence of Tensor, ndarray or None
    unknown : float, optional
        Assumed output entries per input entry if the shapes are unknown.

    Raises
    ------
    ImportRefused
        If they are too large.
    """
    given = present(node, arguments)
    shapes = {name: value.shape for name, value in given.items()}
    constants = {name: v for name, v in given.items() if isinstance(v, np.ndarray)}
    found = forecast(node, shapes, constants)
    made = unknown * sum(map(entry_count, shapes.values()))
    if found is not None:
        made = sum(map(entry_count, found))
    each, what = (NUMBER, "constant") if len(constants) == len(given) else (ENTRY, "tensor")
    budget().charge(each * made, f"a {what} of {made:,.0f} entries")
    return Expected(list(shapes.values()), found, made)


def inner_operations(node: GraphNode, expected: Expected) -> float:
    """Estimate the multiplications of a node."""
    shapes, _, output = expected
    if node.op_type in ("MatMul", "Gemm") and shapes and shapes[0]:
        return output * shapes[0][-1 if not node.attributes.get("transA") else 0]
    if node.op_type.startswith("Conv") and len(shapes) > 1:
        # the reference implementation is a loop in Python
        return 30.0 * max(output, entry_count(shapes[0])) * entry_count(shapes[1][1:])
    if node.op_type == "Einsum":
        return math.prod(entry_count(shape) for shape in shapes)
    return output + sum(entry_count(shape) for shape in shapes)


# -- folding --------------------------------------------------------------------------------------

UNKNOWN = 8.0
"""Largest ratio of sizes of outputs and inputs where shapes depend on values (NonZero, ...)."""

_RANDOM = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip

_REPEAT = {"Loop", "Scan", "SequenceMap"}


def fold(node: GraphNode, arguments: list[Array | None]) -> list[Array]:
    """Compute a node whose inputs are all constant.

    Parameters
    ----------
    node : GraphNode
    arguments : list of ndarray or None

    Returns
    -------
    list of ndarray
        Floats as float64.

    Raises
    ------
    ImportRefused
        If the node is random, or cannot be evaluated.
    """
    if node.op_type in _RANDOM:
        raise node.refuse("the node is random", "export the model in inference mode")
    if node.domain == "" and node.op_type in _REPEAT:
        raise node.refuse(
            "the node repeats a part of the graph, which is not supported",
            "export the model without loops, or simplify it first (for example with onnxsim)",
        )
    budget().work(inner_operations(node, expect(node, arguments, UNKNOWN)))
    try:
        return evaluated(node, present(node, arguments))
    except ValueError as error:
        raise node.refuse(
            f"the node reads constants only, but cannot be computed ({error})",
            "simplify the model first (for example with onnxsim)",
        ) from None


def evaluated(node: GraphNode, feeds: dict[str, Array]) -> list[Array]:
    """Evaluate a node by the reference implementation of the ONNX package.

    Raises
    ------
    ValueError
        If that fails.
    """
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(node.proto, opsets={node.domain: node.version})
        with np.errstate(all="ignore"):
            results = evaluator.run(None, feeds)
    except (*EVALUATOR_ERRORS, SchemaError) as error:
        raise ValueError(str(error)) from None
    return [real_array(np.asarray(result)) for result in results]
