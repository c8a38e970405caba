"""Lowering of all nodes of a graph."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lipyomo.base.errors import ImportRefused, NetworkError
from lipyomo.formats.onnx.fold import expect, fold
from lipyomo.formats.onnx.gates import (
    Formula,
    Pending,
    activation_of,
    is_expandable,
    jump_of,
)
from lipyomo.formats.onnx.graph import (
    Graph,
    GraphNode,
    branches,
    first_line,
    plain_node,
    tensor_array,
)
from lipyomo.formats.onnx.lower import affine_maps, products, units
from lipyomo.formats.onnx.lower.masks import check_finite, check_masks
from lipyomo.formats.onnx.lower.quantised import (
    Quantisers,
    Rounded,
    dequantise,
    quantise,
)
from lipyomo.formats.onnx.lower.registry import (
    Call,
    Lowered,
    Lowering,
    Value,
    lowering_of,
)
from lipyomo.formats.onnx.lower.scope import Scope, size_of
from lipyomo.formats.onnx.refusal import refusal
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.building.budget import OverBudget, budget
from lipyomo.networks.building.chain import to_network
from lipyomo.networks.building.system import System
from lipyomo.networks.building.trace import UNIT_BYTES, Trace
from lipyomo.networks.network import Network
from lipyomo.problems.reductions.merge import merge

PLAIN = (affine_maps, products, units)
"""Modules with the operators of plain feed-forward networks; others are imported on demand."""


def _rounding(node: GraphNode, found: list[Any], scope: Scope, trace: Trace) -> Lowered | Rounded:
    """Lower QuantizeLinear or DequantizeLinear."""
    first, *others = found
    call = Call(node, [first.value if isinstance(first, Rounded) else first, *others], trace)
    if node.op_type == "QuantizeLinear":
        return quantise(call, scope.quantisers, scope.grids.get(node.inputs[0]))
    value = dequantise(call, first if isinstance(first, Rounded) else None)
    if isinstance(first, Rounded):
        scope.grids[node.outputs[0]] = first.grid
    return value


def _lower_node(
    graph: Graph, position: int, scope: Scope, trace: Trace
) -> Lowered | Pending | Rounded:
    """Lower the node at `position`."""
    node = graph.nodes[position]
    found = [scope.get(name) if name else None for name in node.inputs]
    rounded = next((value for value in found if isinstance(value, Rounded)), None)
    if node.domain == "" and node.op_type in ("QuantizeLinear", "DequantizeLinear") and found:
        if not any(isinstance(value, Pending) for value in found):
            expect(node, found)
            return _rounding(node, found, scope, trace)
    elif rounded is not None:
        raise refusal(node, [found.index(rounded)], (), graph.input_name, rounded=True)
    arguments = [value for value in found if not isinstance(value, Pending | Rounded)]
    check_masks(node, found)
    pending = [value.refused for value in found if isinstance(value, Pending)]
    entry = None if pending else lowering_of(node)
    product = entry is not None and entry.multiplies(arguments)

    def later() -> list[GraphNode]:
        return graph.nodes[position + 1 :]

    call = Call(node, arguments, trace, later, graph.input_name)
    # a factor may belong to the activation: x Clip(x + 3, 0, 6) / 6 is HardSwish
    factor = node.op_type in ("Mul", "Div") and not scope.written_out.isdisjoint(node.inputs)
    own = scope.formula_of(node) if pending or factor or product else None
    match = None if own is None else activation_of(own)
    if product and trace.separate and node.op_type == "Log":
        match = None  # the runtime computes log(sigmoid(z)) with sigmoid's rounding errors
    if match is None and product and entry is not None:
        return _lowered_by(entry.function, call, graph)
    if match is None:
        try:
            if pending:
                raise pending[0]
            return _lower_alone(call, graph, scope)
        except OverBudget:
            raise
        except ImportRefused as refused:
            own = scope.formula_of(node)
            match = None if own is None else activation_of(own)
            if match is None and own is not None and is_expandable(own):
                jumps = pending or node.op_type in ("Shrink", "ThresholdedRelu")
                return Pending(own, (_jumping(node, own, refused) if jumps else None) or refused)
            if match is None:
                raise
    scope.written_out.update(node.outputs)
    return match.units(trace, node)


def _jumping(node: GraphNode, own: Formula, refused: ImportRefused) -> ImportRefused | None:
    """Return the error for a discontinuous formula of comparisons; None if it is continuous."""
    jump = jump_of(own)
    if jump is None:
        return None
    remedy = "replace it by a continuous activation, and train again"
    return node.refuse(
        f"it jumps by {float(jump.size):.4g} where the signal that it is made of is "
        f"{float(jump.at):.4g}, so it has no Lipschitz constant",
        refused.remedy if refused.remedy and "--output-node" in refused.remedy else remedy,
    )


def _lower_alone(call: Call, graph: Graph, scope: Scope) -> Lowered:
    """Lower a node by its operator alone, without formulas."""
    node, arguments = call.node, call.arguments
    for name, value in zip(node.inputs, arguments, strict=True):
        if name and value is None:
            raise node.refuse(
                f"'{name}' is an output that is not supported (a mask, indices, or a statistic)",
                "export the model in inference mode, without that output",
            )
    if node.domain == "" and node.op_type == "If":
        return _lower_branch(call, graph, scope)
    entry = lowering_of(node)
    read = [i for i, argument in enumerate(arguments) if isinstance(argument, Tensor)]
    if not read and (entry is None or not entry.constants):
        return fold(node, [None if isinstance(a, Tensor) else a for a in arguments])
    if entry is None:
        raise refusal(node, read, call.later(), graph.input_name)
    return _lowered_by(entry.function, call, graph)


def _lowered_by(function: Lowering, call: Call, graph: Graph) -> Lowered:
    """Lower a node by a given function."""
    if any(isinstance(argument, Tensor) for argument in call.arguments):
        check_finite(call.node, call.arguments)
    _, shapes, made = expect(call.node, call.arguments)
    if graph.output_name in call.node.outputs:
        budget().charge(UNIT_BYTES * made, f"{made:,.0f} outputs")
    return function(replace(call, made=made, shapes=shapes))


def _lower_branch(call: Call, graph: Graph, scope: Scope) -> list[Value]:
    """Lower an If with a constant condition, by the selected branch."""
    node = call.node
    condition = call.constant(0, "the condition")
    inner = branches(node.proto).get("then_branch" if np.all(condition) else "else_branch")
    if inner is None:
        raise node.refuse("the branch is missing", "export the model again")
    nodes = [plain_node(proto, graph.versions) for proto in inner.node]
    stored: dict[str, Value] = {
        tensor.name: tensor_array(tensor, tensor.name) for tensor in inner.initializer
    }
    names = [value.name for value in inner.output]
    inside = Scope(nodes, stored, set(names), scope)
    part = Graph(nodes, {}, graph.input_name, graph.input_shape, "", graph.versions)
    _lower_nodes(part, inside, call.trace)
    budget().keep(-sum(size_of(value) for value in inside.known.values()))
    outputs = [_made(inside.get(name)) for name in names]
    if any(value is None for value in outputs):
        raise node.refuse("an output of the branch is not made", "export the model again")
    return [value for value in outputs if value is not None]


def _made(value: Value | Pending | Rounded | None) -> Value | None:
    """Return a value; raise an error for a pending formula or a rounded signal."""
    if isinstance(value, Pending):
        raise value.refused
    if isinstance(value, Rounded):
        raise ImportRefused(
            "the output is a signal in whole numbers",
            remedy="choose the output of the DequantizeLinear behind it with --output-node",
        )
    return value


def _carried(value: Value) -> Value:
    """Return a tensor in variables of its own; constants and masked tensors are unchanged."""
    if isinstance(value, np.ndarray) or not np.isfinite(value.offset).all():
        return value
    return value.carried()


def _lower_nodes(graph: Graph, scope: Scope, trace: Trace) -> None:
    """Lower all nodes of a graph into its scope."""
    for position, node in enumerate(graph.nodes):
        budget().at((node.name, node.op_type))
        budget().poll()
        try:
            lowered = _lower_node(graph, position, scope, trace)
            if trace.separate and not isinstance(lowered, Pending | Rounded):
                values = [lowered] if isinstance(lowered, Tensor | np.ndarray) else lowered
                lowered = [_carried(v) for v in values]
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise ImportRefused(
                f"the shapes do not fit ({first_line(error)})",
                node=node.name,
                op_type=node.op_type,
                remedy="export the model for a batch of one, with a fixed input shape",
            ) from None
        scope.add(node, lowered)
    budget().at(None)


def lower_graph(
    graph: Graph,
    name: str = "network",
    separate: bool = False,
    quantisers: Quantisers | None = None,
) -> Network:
    """Convert a graph to a network, a chain of affine maps and units.

    Parameters
    ----------
    graph : Graph
        Its constants are removed, to free their memory.
    name : str, optional
        Name of the network.
    separate : bool, optional
        Whether every node keeps a layer of its own: a wider and deeper network that has all numbers
        of the graph.
    quantisers : Quantisers, optional
        Records rounded signals, which are refused without it.  If rounded signals are held, the
        signals before rounding are additional outputs.

    Returns
    -------
    Network
        A function of the flattened input (row-major) with flattened outputs, with the shapes of
        both without the batch dimension.  Rounding errors, or rounded signals, are additional
        inputs, one for each entry.

    Raises
    ------
    ImportRefused
        If an operator is not supported, shapes do not fit, or the model exceeds its budget of
        memory or time.
    """
    trace = Trace(math.prod(graph.input_shape), separate)
    known: dict[str, Value] = dict(graph.constants)
    graph.constants.clear()
    known[graph.input_name] = trace.input(graph.input_shape)
    scope = Scope(graph.nodes, known, {graph.output_name}, quantisers=quantisers)
    _lower_nodes(graph, scope, trace)
    output = _output(_made(scope.get(graph.output_name)), graph.output_name)
    shapes: tuple[Any, ...] = _unbatched(graph.input_shape), _unbatched(output.shape)
    parts, names = graph.parts, graph.names
    if quantisers is not None and quantisers.met:
        shapes, parts, names = (None, None), {}, None
        if quantisers.held:
            output = stack([output, *(one.before for one in quantisers.met)])
    try:
        system = System.of(trace, output)
        network = to_network(system, name, fuse=not separate)
        network = Network(network.layers, name, shapes[0], shapes[1], parts, names)
        network = network if separate else merge(network).network
    except NetworkError as error:
        raise ImportRefused(
            f"the network's numbers overflow once its nodes are put together ({error})",
            remedy="scale the weights of the model down",
        ) from None
    return network


def _unbatched(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return a shape without its batch dimension (a leading 1); None for a scalar."""
    inner = shape[1:] if len(shape) > 1 and shape[0] == 1 else shape
    return inner or None


def _output(value: Value | None, name: str) -> Tensor:
    """Return the tensor that is the network's output."""
    if isinstance(value, Tensor):
        if np.isfinite(value.offset).all():
            return value
        raise ImportRefused(
            f"entries of the output '{name}' are masked (minus infinity)",
            remedy="choose another one with --output-node",
        )
    if value is None or value.dtype.kind not in "fiub" or not value.size:
        raise ImportRefused(
            f"the output '{name}' is not a tensor of numbers",
            remedy="choose another one with --output-node",
        )
    return Tensor.constant(value)
