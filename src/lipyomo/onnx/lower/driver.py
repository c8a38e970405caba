"""Walk through the nodes of a graph and lower each."""

from __future__ import annotations

import numpy as np

from lipyomo.errors import ImportRefused
from lipyomo.network import Network
from lipyomo.onnx.affine import Affine
from lipyomo.onnx.chain import to_network
from lipyomo.onnx.fold import fold
from lipyomo.onnx.graph import Graph, Node, first_line
from lipyomo.onnx.lower import (
    arithmetic,
    conv,
    matmul,
    moves,
    norm,
    pool,
    reduce,
    shape,
    units,
)
from lipyomo.onnx.lower.registry import Call, Lowered, Value, lowering_of, takes_constants
from lipyomo.onnx.merge import merge_parallel
from lipyomo.onnx.refusal import refusal
from lipyomo.onnx.system import System
from lipyomo.onnx.trace import Trace

MODULES = (arithmetic, conv, matmul, moves, norm, pool, reduce, shape, units)
"""The modules that register operators when they are imported."""


def _check_finite(node: Node, arguments: list[Value | None]) -> None:
    """Refuse infinite constants where a tensor is computed (limits of Clip may be infinite)."""
    if node.op_type == "Clip":
        return
    for name, value in zip(node.inputs, arguments, strict=True):
        if value is None or isinstance(value, Affine) or value.dtype.kind != "f":
            continue
        if not np.isfinite(value).all():
            raise node.refuse(
                f"the weights '{name}' hold infinite entries or NaN",
                "train or export the network again",
            )


def _lower_node(graph: Graph, position: int, known: dict[str, Value], trace: Trace) -> Lowered:
    """The outputs of the node at `position`."""
    node = graph.nodes[position]
    for name in node.inputs:
        if name and name not in known:
            raise node.refuse(
                f"'{name}' is an output that is not supported (a mask, indices, or a statistic)",
                "export the model in inference mode, without that output",
            )
    arguments = [known[name] if name else None for name in node.inputs]
    function = lowering_of(node)
    variable = any(isinstance(argument, Affine) for argument in arguments)
    if not variable and (function is None or not takes_constants(node)):
        return fold(node, [None if isinstance(a, Affine) else a for a in arguments])
    if function is None:
        read = [i for i, argument in enumerate(arguments) if isinstance(argument, Affine)]
        raise refusal(node, read, graph.nodes[position + 1 :], graph.input_name)
    if variable:
        _check_finite(node, arguments)
    return function(Call(node, arguments, trace))


def lower_graph(graph: Graph, name: str = "network") -> Network:
    """Turn a graph into a chain of affine maps and two-slope units.

    Parameters
    ----------
    graph : Graph
    name : str, optional
        Name of the network.

    Returns
    -------
    Network
        A function of the flattened input (row-major) with flattened outputs.

    Raises
    ------
    ImportRefused
        If an operator is not piecewise linear or not supported, or shapes do not fit.
    """
    trace = Trace(int(np.prod(graph.input_shape)))
    known: dict[str, Value] = dict(graph.constants)
    known[graph.input_name] = trace.input(graph.input_shape)
    for position, node in enumerate(graph.nodes):
        try:
            lowered = _lower_node(graph, position, known, trace)
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise ImportRefused(
                f"the shapes do not fit ({first_line(error)})",
                node=node.name,
                op_type=node.op_type,
                remedy="export the model for a batch of one, with a fixed input shape",
            ) from None
        outputs = [lowered] if isinstance(lowered, Affine | np.ndarray) else lowered
        known.update(zip(node.outputs, outputs, strict=False))
    output = _output(known.get(graph.output_name), graph.output_name)
    return to_network(merge_parallel(System.of(trace, output)), name)


def _output(value: Value | None, name: str) -> Affine:
    """The tensor that the network returns."""
    if isinstance(value, Affine):
        return value
    if value is None or value.dtype.kind not in "fiub" or not value.size:
        raise ImportRefused(
            f"the output '{name}' is not a tensor of numbers",
            remedy="choose another one with --output",
        )
    return Affine.constant(value)
