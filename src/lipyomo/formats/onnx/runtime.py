"""A model in onnxruntime, as a function of the flattened input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx.arrange import Fixed, Output, input_shape
from lipyomo.formats.onnx.graph import EVALUATOR_ERRORS, first_line
from lipyomo.formats.onnx.select import cut_model

UNCHECKED = "with check=False, lipyomo.load imports it unchecked, in Python and at your own risk"
"""Remedy to import without a comparison, for which the command line has no option."""

_DTYPES: dict[int, type[np.floating]] = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.DOUBLE: np.float64,
    onnx.TensorProto.FLOAT16: np.float16,
}


def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return all exceptions of onnxruntime, which have no common base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = [
        item
        for item in vars(state).values()
        if isinstance(item, type) and issubclass(item, Exception)
    ]
    return (*found, RuntimeError, ValueError)


def _stored_kinds(graph: onnx.GraphProto) -> set[int]:
    """Return the types of the weights and inputs."""
    kinds = {tensor.data_type for tensor in graph.initializer}
    return kinds | {value.type.tensor_type.elem_type for value in graph.input}


def _precision(graph: onnx.GraphProto) -> float:
    """Return the machine epsilon of the least precise real type in the graph."""
    kinds = _stored_kinds(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                kinds.add(attribute.t.data_type)
            if node.op_type == "Cast" and attribute.name == "to":
                kinds.add(attribute.i)
    kinds &= _DTYPES.keys()
    return max((float(np.finfo(_DTYPES[kind]).eps) for kind in kinds), default=2.0**-23)


def _expose(cut: onnx.ModelProto) -> None:
    """Add every tensor that depends on the input to the outputs."""
    output = cut.graph.output[0].name
    reached = {cut.graph.input[0].name}
    for node in cut.graph.node:
        if not reached.isdisjoint(node.input):
            made = {name for name in node.output if name}
            reached |= made
            fresh = (onnx.ValueInfoProto(name=name) for name in node.output if name in made)
            cut.graph.output.extend(value for value in fresh if value.name != output)


class NotImplementedThere(ImportRefused):
    """onnxruntime has no kernel for a node of the model."""


Run: TypeAlias = Callable[[dict[str, Any]], Sequence[object]]
"""Maps the input by name to all tensors, the output first."""


class Runner:
    """An evaluator of a model at points.

    Parameters
    ----------
    cut : onnx.ModelProto
        Its first input and output are those of the network; other tensors follow.
    name : str
        Name of the runtime.
    opened : callable
        Loads the model.
    points : int
        Limit of the number of points.

    Attributes
    ----------
    dtype : type
        Type of the input.
    eps : float
        Relative rounding error of the evaluation.
    size : int
        Number of inputs.
    names : list of str
        Names of all tensors that are returned, the output first.

    Raises
    ------
    ImportRefused
        If the model cannot be run.
    """

    def __init__(
        self, cut: onnx.ModelProto, name: str, opened: Callable[[onnx.ModelProto], Run], points: int
    ) -> None:
        self.name, self.points = name, points
        value = cut.graph.input[0]
        self._input = value.name
        self._shape = input_shape(value)
        self.size = int(np.prod(self._shape))
        self.dtype = _DTYPES.get(value.type.tensor_type.elem_type, np.float32)
        self.eps = _precision(cut.graph)
        self.names = [value.name for value in cut.graph.output]
        self._run = opened(cut)
        self._masked = [~_finite(value) for value in self._run(self._feed(np.zeros(self.size)))]

    def tensors(self, x: FloatArray) -> dict[str, Any]:
        """Return the output, all other tensors that depend on the input, and the input, by name."""
        feed = self._feed(x)
        return dict(zip(self.names, self._run(feed), strict=True)) | feed

    def _feed(self, x: FloatArray) -> dict[str, Any]:
        return {self._input: x.astype(self.dtype).reshape(self._shape)}

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the flattened output at one point."""
        return np.asarray(self._run(self._feed(x))[0], dtype=np.float64).reshape(-1)

    def largest(self, values: Sequence[object]) -> float:
        """Return the largest absolute value in real arrays; infinite if one is not finite.

        Entries that are not finite at the origin are ignored as masks.
        """
        sizes = []
        for value, masked in zip(values, self._masked, strict=False):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                sizes.append(float(np.where(masked, 0.0, np.abs(value)).max()))
        return max((size if np.isfinite(size) else np.inf for size in sizes), default=0.0)


def _finite(value: object) -> BoolArray:
    """Return which entries of an array are finite or +inf; True for arrays of other types."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return np.ones((), dtype=bool)
    return np.asarray(np.isfinite(value) | (value == np.inf))


def open_runtime(model: onnx.ModelProto, output: Output, fixed: Fixed | None) -> Runner:
    """Load a model in onnxruntime, or in ONNX's reference evaluator if kernels are missing.

    For example, onnxruntime has no convolution in float64.  The reference evaluator is slow, so it
    is only used at few points.

    Raises
    ------
    ImportRefused
        If neither can run the model.
    """
    cut = cut_model(model, output, fixed)
    _expose(cut)
    try:
        return Runner(cut, "onnxruntime", _onnxruntime, 1_000_000)
    except NotImplementedThere as refusal:
        try:
            evaluator = Runner(cut, EVALUATOR, _evaluator, 4)
            evaluator(np.zeros(evaluator.size))  # whether it can
            return evaluator
        except EVALUATOR_ERRORS:
            raise refusal from None
        except ImportRefused:
            if onnx.TensorProto.BFLOAT16 in _stored_kinds(model.graph):
                raise ImportRefused(
                    "onnxruntime does not compute in bfloat16, so the import cannot be checked",
                    remedy="convert the model to float32, which changes no weight",
                ) from None
            raise


EVALUATOR = "the ONNX reference evaluator"


def _evaluator(cut: onnx.ModelProto) -> Run:
    """Load a model in the reference evaluator of the ONNX package."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(cut)

    def run(feed: dict[str, Any]) -> Sequence[object]:
        try:
            with np.errstate(all="ignore"):
                found: Sequence[object] = evaluator.run(None, feed)
        except EVALUATOR_ERRORS as error:
            raise ImportRefused(
                f"neither onnxruntime nor {EVALUATOR} can run the model, so the import cannot be "
                f"checked: {first_line(error)}",
                remedy=UNCHECKED,
            ) from None
        return found

    return run


def _onnxruntime(cut: onnx.ModelProto) -> Run:
    """Load a model in onnxruntime."""
    import onnxruntime

    errors = _runtime_errors()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Graph optimisation fails on some float64 graphs, and the original graph is to be compared.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def guarded(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except errors as error:
            missing = ("NOT_IMPLEMENTED", "Could not find an implementation")
            kind = NotImplementedThere if any(m in str(error) for m in missing) else ImportRefused
            raise kind(
                "onnxruntime cannot run the model, so the import cannot be checked: "
                f"{first_line(error)}",
                remedy="export the model for an operator set that onnxruntime supports; "
                + UNCHECKED,
            ) from None

    session = guarded(
        lambda: onnxruntime.InferenceSession(
            cut.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
        )
    )
    return lambda feed: guarded(lambda: session.run(None, feed))
