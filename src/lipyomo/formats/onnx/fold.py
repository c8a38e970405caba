"""Constant folding, in float64."""

from __future__ import annotations

import numpy as np

from lipyomo.formats.onnx.forecast import expect, inner_operations, present
from lipyomo.formats.onnx.graph import EVALUATOR_ERRORS, Array, GraphNode, real_array
from lipyomo.networks.building.budget import budget

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
    shapes, made = expect(node, arguments, UNKNOWN)
    budget().work(inner_operations(node, shapes, made))
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
    from onnx.defs import SchemaError
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(node.proto, opsets={node.domain: node.version})
        with np.errstate(all="ignore"):
            results = evaluator.run(None, feeds)
    except (*EVALUATOR_ERRORS, SchemaError) as error:
        raise ValueError(str(error)) from None
    return [real_array(np.asarray(result)) for result in results]
