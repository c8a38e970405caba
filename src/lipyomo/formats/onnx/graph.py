"""The graph of a model as plain Python: nodes in order, constants, one input, one output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.memory import DEEPEST

Array: TypeAlias = npt.NDArray[Any]
Attribute: TypeAlias = "int | float | str | Array | list[int] | list[float] | list[str]"

REAL_TYPES = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
}

EVALUATOR_ERRORS = (
    RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
)  # fmt: skip
"""Exceptions of the ONNX package's reference evaluator for invalid attributes or shapes."""


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One operator of the graph.

    Parameters
    ----------
    name : str
        The node's name, or its output in brackets if it has none.
    op_type, domain : str
    version : int
        Operator-set version of its domain.
    inputs, outputs : tuple of str
        Tensor names; an empty string is an omitted one.
    attributes : dict
    proto : onnx.NodeProto
    """

    name: str
    op_type: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    proto: onnx.NodeProto

    def refuse(self, message: str, remedy: str) -> ImportRefused:
        """Return an error that names this node."""
        return ImportRefused(message, node=self.name, op_type=self.op_type, remedy=remedy)

    def integer(self, key: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(key, default)
        if not isinstance(value, int):
            raise self.refuse(f"attribute '{key}' is not an integer", "export the model again")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a real attribute, as stored (float32 values are exact in float64)."""
        value = self.attributes.get(key, default)
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise self.refuse(f"attribute '{key}' is not a finite number", "export it again")
        return float(value)

    def integers(self, key: str) -> list[int] | None:
        """Return a list of integers, or None if the attribute is absent."""
        value = self.attributes.get(key)
        if value is None:
            return None
        return [int(v) for v in np.atleast_1d(np.asarray(value))]

    def numbers(self, key: str) -> npt.NDArray[np.float64]:
        """Return a list of real numbers (empty if the attribute is absent)."""
        return np.asarray(self.attributes.get(key, []), dtype=np.float64)

    def text(self, key: str, default: str) -> str:
        """Return a text attribute."""
        return str(self.attributes.get(key, default))

    def texts(self, key: str) -> list[str]:
        """Return a list of texts (empty if the attribute is absent)."""
        found = self.attributes.get(key)
        return [str(text) for text in found] if isinstance(found, list) else []


def first_line(error: Exception) -> str:
    """Return the first line of another package's error message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def real_array(array: Array) -> Array:
    """Convert floats of any width to float64 (exactly); other types are unchanged."""
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float64)
    return array


def tensor_array(tensor: onnx.TensorProto, where: str) -> Array:
    """Return the values of a stored tensor, floats as float64.

    Raises
    ------
    ImportRefused
        If its data are missing or have NaN.
    """
    try:
        array = real_array(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, onnx.checker.ValidationError) as error:
        raise ImportRefused(
            f"the values of '{where}' cannot be read ({first_line(error)})",
            remedy="export the model again, with its external data beside it",
        ) from None
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ImportRefused(
            f"the weights '{where}' hold NaN", remedy="train or export the network again"
        )
    return array


def _attribute(proto: onnx.AttributeProto, where: str) -> Attribute | None:
    """Return the value of an attribute (None for sub-graphs and other unsupported kinds)."""
    kind = onnx.AttributeProto
    if proto.type == kind.TENSOR:
        return tensor_array(proto.t, where)
    value = onnx.helper.get_attribute_value(proto)
    if proto.type == kind.STRING:
        return str(value.decode("utf-8", "replace"))
    if proto.type == kind.STRINGS:
        return [item.decode("utf-8", "replace") for item in value]
    plain: Attribute | None = value if isinstance(value, int | float) else None
    return list(value) if proto.type in (kind.INTS, kind.FLOATS) else plain


def plain_node(proto: onnx.NodeProto, versions: dict[str, int]) -> GraphNode:
    """Convert a node of the model to a `GraphNode`."""
    outputs = tuple(proto.output)
    name = proto.name or "[" + next((o for o in outputs if o), "no output") + "]"
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    attributes = {}
    for attribute in proto.attribute:
        value = _attribute(attribute, f"{name}.{attribute.name}")
        if value is not None:
            attributes[attribute.name] = value
    return GraphNode(
        name=name,
        op_type=proto.op_type,
        domain=domain,
        version=versions.get(domain, 1),
        inputs=tuple(proto.input),
        outputs=outputs,
        attributes=attributes,
        proto=proto,
    )


@dataclass(frozen=True, eq=False)
class Graph:
    """The part of a model that computes one output from one input.

    Parameters
    ----------
    nodes : list of GraphNode
        In topological order.
    constants : dict of str to ndarray
        Initializers in use.
    input_name : str
    input_shape : tuple of int
        Free batch dimension set to 1.
    output_name : str
    versions : dict of str to int
        Operator-set version of each domain.
    parts : dict of str to int
        Names and sizes of the model's inputs that were joined to this one.
    names : tuple of str, or None
        Names of the input's entries, if the model has them.
    """

    nodes: list[GraphNode]
    constants: dict[str, Array]
    input_name: str
    input_shape: tuple[int, ...]
    output_name: str
    versions: dict[str, int]
    parts: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] | None = None


def producers(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """Return the node that computes each tensor.

    Raises
    ------
    ImportRefused
        If two nodes have the same output, or a node's output is an input of the graph.
    """
    made_by: dict[str, onnx.NodeProto] = {}
    given = {value.name for value in graph.input}
    for node in graph.node:
        for name in node.output:
            if name and (name in made_by or name in given):
                other = f"node '{made_by[name].name}'" if name in made_by else "the model's input"
                raise ImportRefused(
                    f"the tensor '{name}' is already made by {other}",
                    node=node.name,
                    op_type=node.op_type,
                    remedy="the file breaks the ONNX standard: give every tensor a name of its own",
                )
            if name:
                made_by[name] = node
    return made_by


def branches(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """Return the sub-graphs of a node (If, Loop, Scan), by attribute."""
    return {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}


def reads(node: onnx.NodeProto, depth: int = 0) -> list[str]:
    """Return the tensors that a node reads, including those its sub-graphs take from outside."""
    names = [name for name in node.input if name]
    for inner in branches(node).values():
        if depth >= DEEPEST:
            raise ImportRefused(
                f"graphs are nested more than {DEEPEST} deep",
                node=node.name,
                op_type=node.op_type,
                remedy="simplify the model first (for example with onnxsim)",
            )
        own = {value.name for value in inner.input} | {t.name for t in inner.initializer}
        own |= {name for child in inner.node for name in child.output}
        taken = [name for child in inner.node for name in reads(child, depth + 1)]
        taken += [value.name for value in inner.output]
        names += [name for name in taken if name not in own]
    return names


def ordered(graph: onnx.GraphProto, output: str) -> tuple[list[onnx.NodeProto], set[str]]:
    """Return the nodes on which `output` depends, in topological order, and the tensors read.

    Raises
    ------
    ImportRefused
        If the graph has a cycle.
    """
    made_by = producers(graph)
    order: list[onnx.NodeProto] = []
    done: set[int] = set()
    active: set[int] = set()
    wanted = {output}
    todo: list[tuple[str, bool]] = [(output, False)]
    while todo:
        tensor, finished = todo.pop()
        node = made_by.get(tensor)
        if node is None or id(node) in done:
            continue
        if finished:
            active.discard(id(node))
            done.add(id(node))
            order.append(node)
            continue
        if id(node) in active:
            raise ImportRefused(
                "the graph has a cycle", node=node.name, op_type=node.op_type, remedy="export again"
            )
        active.add(id(node))
        todo.append((tensor, True))
        names = reads(node)
        wanted.update(names)
        todo.extend((name, False) for name in reversed(names))
    return order, wanted


def known_tensors(graph: onnx.GraphProto) -> Iterable[str]:
    """Yield all tensors that can be chosen as an output."""
    yield from producers(graph)
    yield from (value.name for value in graph.input)
