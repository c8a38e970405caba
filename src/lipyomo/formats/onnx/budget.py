"""What an import may take: bytes, operations and seconds, counted before anything is allocated.

A file of a few bytes can ask for any amount of memory (a constant of 3e9 entries, a tensor joined
with itself forty times) or time (a loop of 1e12 rounds).  So the sizes of a node's outputs are
inferred from its inputs first (`forecast`), and what is about to be allocated is charged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from lipyomo.base.errors import ImportRefused
from lipyomo.base.numerics.params import PARAMS as PACE
from lipyomo.base.system.memory import CACHED, machine_memory
from lipyomo.formats.onnx.graph import Array, Node

MEMORY_SHARE = 0.5
"""Of the machine's memory, that an import may take where no limit was given."""
OPERATIONS = PACE.rate
"""Multiplications in a node: a second of dense products, some ten of what nodes do."""

Argument = TypeVar("Argument")

NUMBER = np.dtype(np.float64).itemsize
"""Bytes of a number."""
ENTRY = 3 * NUMBER
"""Bytes of an entry of a tensor that depends on the input: its offset, its place, one number."""


def readable(size: float) -> str:
    """Bytes in words, such as ``24.0 GB``."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1e3:,.1f} kB"


class OverBudget(ImportRefused):
    """A model asks for more memory or time than there is; another way to the same is no cheaper."""


@dataclass
class Budget:
    """What is left of the memory and the time of an import.

    Attributes
    ----------
    memory : int
        Most bytes at a time.
    deadline : float
        On `time.monotonic`'s clock.
    seconds : float
        The time limit, for messages.
    held : int
        Bytes of the tensors that are kept.
    node : Node or None
        What is being imported, for messages.
    """

    memory: int = field(default_factory=lambda: int(MEMORY_SHARE * machine_memory()))
    deadline: float = math.inf
    seconds: float = math.inf
    held: int = 0
    node: Node | None = None

    def charge(self, size: float, what: str) -> None:
        """Ask for `size` bytes.

        Raises
        ------
        ImportRefused
            If they do not fit into the budget; it names the node, the size and the limit.
        """
        self.poll()
        if self.held + size <= self.memory:
            return
        raise self._refusal(
            f"{what} would take {readable(size)}"
            + (f" beside {readable(self.held)}" if self.held > size / 10 else "")
            + f"; the memory limit is {readable(self.memory)}",
            "export a smaller model, or raise --memory-limit",
        )

    def work(self, operations: float, what: str = "computing the node") -> None:
        """Ask for some operations, whatever the machine's memory is.

        Raises
        ------
        ImportRefused
            If there are too many of them.
        """
        self.poll()
        if operations > OPERATIONS:
            raise self._refusal(
                f"{what} takes {operations:.2g} operations; the limit is {OPERATIONS:.2g}",
                "simplify the model first (for example with onnxsim)",
            )

    def poll(self) -> None:
        """Look at the clock.

        Raises
        ------
        ImportRefused
            If the time limit is over.
        """
        if time.monotonic() > self.deadline:
            raise self._refusal(
                "the time limit ended while the model was imported "
                f"({self.seconds:.3g} s were left for it)",
                "raise --time-limit, or export a smaller model",
            )

    def _refusal(self, message: str, remedy: str) -> ImportRefused:
        if self.node is None:
            return OverBudget(message, remedy=remedy)
        return OverBudget(message, self.node.name, self.node.op_type, remedy)


def limits(time_limit: float = math.inf, memory_limit: int | None = None) -> Budget:
    """A fresh budget.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    memory_limit : int, optional
        Bytes; a share of the machine's memory if left out.
    """
    clock = Budget(deadline=time.monotonic() + time_limit, seconds=time_limit)
    return clock if memory_limit is None else replace(clock, memory=memory_limit)


_current: ContextVar[Budget] = ContextVar("budget")


def budget() -> Budget:
    """The budget of the import that is going on; outside one, that of the machine."""
    try:
        return _current.get()
    except LookupError:
        return Budget()


@contextmanager
def spending(chosen: Budget) -> Iterator[Budget]:
    """Let everything in the block be charged to `chosen`."""
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def _stored(array: Array, name: str) -> onnx.TensorProto:
    """A constant as a file holds it; numbers have no axes there."""
    found = numpy_helper.from_array(np.ascontiguousarray(array), name)
    if array.ndim == 0:
        found.ClearField("dims")
    return found


def forecast(
    node: Node, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]
) -> list[tuple[int, ...]] | None:
    """Shapes of a node's outputs, inferred from those of its inputs; None if they are not known.

    Parameters
    ----------
    node : Node
    shapes : mapping of str to tuple of int
        Of all inputs.
    constants : mapping of str to ndarray
        The inputs that are constant.
    """
    from onnx.checker import ValidationError
    from onnx.defs import SchemaError, get_schema
    from onnx.shape_inference import InferenceError, infer_node_outputs

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


def present(node: Node, arguments: Sequence[Argument | None]) -> dict[str, Argument]:
    """The arguments of a node that are there, by name."""
    pairs = zip(node.inputs, arguments, strict=True)
    return {name: value for name, value in pairs if value is not None and name}


def entries(shape: tuple[int, ...]) -> float:
    """Number of entries, as a float that cannot overflow."""
    return math.prod(map(float, shape))


def expect(
    node: Node, arguments: Sequence[Any], unknown: float = 0.0
) -> tuple[list[tuple[int, ...]], float]:
    """Ask the budget for the outputs of a node, before they are made.

    Parameters
    ----------
    node : Node
    arguments : sequence of Affine, ndarray or None
    unknown : float, optional
        Where shapes depend on values, how many entries are made for each that is read.

    Returns
    -------
    shapes : list of tuple of int
        Of the arguments that are there.
    made : float
        Number of entries of all outputs.

    Raises
    ------
    ImportRefused
        If they are too large.
    """
    given = present(node, arguments)
    shapes = {name: value.shape for name, value in given.items()}
    constants = {name: v for name, v in given.items() if isinstance(v, np.ndarray)}
    found = forecast(node, shapes, constants)
    if found is None:
        made = unknown * sum(map(entries, shapes.values()))
    else:
        made = sum(map(entries, found))
    each, what = (NUMBER, "constant") if len(constants) == len(given) else (ENTRY, "tensor")
    budget().charge(each * made, f"a {what} of {made:,.0f} entries")
    return list(shapes.values()), made


def inner_operations(node: Node, shapes: list[tuple[int, ...]], output: float) -> float:
    """About how many multiplications a node takes whose outputs have `output` entries together."""
    if node.op_type in ("MatMul", "Gemm") and shapes and shapes[0]:
        return output * shapes[0][-1 if not node.attributes.get("transA") else 0]
    if node.op_type.startswith("Conv") and len(shapes) > 1:
        # the reference implementation is a loop in Python
        return 30.0 * max(output, entries(shapes[0])) * entries(shapes[1][1:])
    if node.op_type == "Einsum":
        return math.prod(entries(shape) for shape in shapes)
    return output + sum(entries(shape) for shape in shapes)
