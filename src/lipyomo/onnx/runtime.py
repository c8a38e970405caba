"""A model in onnxruntime, as a function of the flattened input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from lipyomo.errors import ImportRefused
from lipyomo.network import FloatArray
from lipyomo.onnx.graph import EVALUATOR_ERRORS, first_line, ordered
from lipyomo.onnx.select import choose_input, cut_model, input_shape

_DTYPES: dict[int, type[np.floating]] = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.DOUBLE: np.float64,
    onnx.TensorProto.FLOAT16: np.float16,
}


def _runtime_errors() -> tuple[type[Exception], ...]:
    """All exceptions of onnxruntime; they have no common base class of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = [
        item
        for item in vars(state).values()
        if isinstance(item, type) and issubclass(item, Exception)
    ]
    return (*found, RuntimeError, ValueError)


def _stored_kinds(graph: onnx.GraphProto) -> set[int]:
    """Types of the weights and of the inputs."""
    kinds = {tensor.data_type for tensor in graph.initializer}
    return kinds | {value.type.tensor_type.elem_type for value in graph.input}


def _precision(graph: onnx.GraphProto) -> float:
    """Unit roundoff of the least precise real type that the graph mentions."""
    kinds = _stored_kinds(graph)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                kinds.add(attribute.t.data_type)
            if node.op_type == "Cast" and attribute.name == "to":
                kinds.add(attribute.i)
    kinds &= _DTYPES.keys()
    return max((float(np.finfo(_DTYPES[kind]).eps) for kind in kinds), default=2.0**-23)


def _expose(cut: onnx.ModelProto, source: str) -> None:
    """Make every tensor that depends on the input an output, after the real one."""
    known = {value.name for value in cut.graph.output}
    reached = {source}
    for node in cut.graph.node:
        if reached.isdisjoint(node.input):
            continue
        reached.update(name for name in node.output if name)
        fresh = [name for name in node.output if name and name not in known]
        cut.graph.output.extend(onnx.ValueInfoProto(name=name) for name in fresh)


class NotImplementedThere(ImportRefused):
    """onnxruntime has no kernel for a node of the model."""


def open_runtime(model: onnx.ModelProto, output: str | None = None) -> Runner:
    """The model in onnxruntime; in ONNX's own evaluator where onnxruntime lacks a kernel.

    onnxruntime has, for example, no convolution in float64.

    Raises
    ------
    ImportRefused
        If neither can run the model.
    """
    try:
        return Runtime(model, output)
    except NotImplementedThere as refusal:
        try:
            evaluator = Evaluator(model, output)
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


class Runner(ABC):
    """A model that is asked for its outputs at points.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, optional
        Tensor or node to cut at.

    Attributes
    ----------
    name : str
        What runs it.
    points : int
        At how many points it may be asked.
    dtype : type
        Of the input.
    eps : float
        Unit roundoff of the evaluation.
    size : int
        Number of inputs.

    Raises
    ------
    ImportRefused
        If it cannot be run.
    """

    name: str
    points: int

    def __init__(self, model: onnx.ModelProto, output: str | None = None) -> None:
        cut = cut_model(model, output)
        value = choose_input(cut.graph, ordered(cut.graph, cut.graph.output[0].name)[1])
        self._name = value.name
        self._shape = input_shape(value)
        self.size = int(np.prod(self._shape))
        self.dtype = _DTYPES.get(value.type.tensor_type.elem_type, np.float32)
        self.eps = _precision(cut.graph)
        _expose(cut, self._name)
        self._open(cut)

    @abstractmethod
    def _open(self, cut: onnx.ModelProto) -> None:
        """Make the model ready, with all its tensors as outputs."""

    @abstractmethod
    def _run(self, feed: dict[str, Any]) -> Sequence[object]:
        """All tensors."""

    def __call__(self, x: FloatArray) -> tuple[FloatArray, float]:
        """The flattened output at one point, and the largest number that was met on the way."""
        values = self._run({self._name: x.astype(self.dtype).reshape(self._shape)})
        return np.asarray(values[0], dtype=np.float64).reshape(-1), _largest(values)


class Evaluator(Runner):
    """A model in the reference evaluator of the ONNX package; slow, so at few points."""

    name = "the ONNX reference evaluator"
    points = 4

    def _open(self, cut: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        self._evaluator = ReferenceEvaluator(cut)

    def _run(self, feed: dict[str, Any]) -> Sequence[object]:
        try:
            with np.errstate(all="ignore"):
                found: Sequence[object] = self._evaluator.run(None, feed)
        except EVALUATOR_ERRORS as error:
            raise ImportRefused(
                f"neither onnxruntime nor {self.name} can run the model, so the import cannot be "
                f"checked: {first_line(error)}",
                remedy="load it with check=False, at your own risk",
            ) from None
        return found


def _largest(values: Sequence[object]) -> float:
    """The largest absolute value among real arrays; infinite if one is not finite."""
    met = [v for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size]
    sizes = [float(np.abs(v).max()) for v in met]
    return max((size if np.isfinite(size) else np.inf for size in sizes), default=0.0)


class Runtime(Runner):
    """A model in onnxruntime."""

    name = "onnxruntime"
    points = 1_000_000

    def _open(self, cut: onnx.ModelProto) -> None:
        import onnxruntime

        self._errors = _runtime_errors()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        # Its rewriting fails on some float64 graphs, and the graph as it stands is what counts.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = onnxruntime.InferenceSession(
                cut.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,
            )
        except self._errors as error:
            if "NOT_IMPLEMENTED" in str(error) or "Could not find an implementation" in str(error):
                raise NotImplementedThere(*self._words(error)) from None
            raise self._refusal(error) from None

    def _run(self, feed: dict[str, Any]) -> Sequence[object]:
        try:
            found: Sequence[object] = self._session.run(None, feed)
        except self._errors as error:
            raise self._refusal(error) from None
        return found

    @staticmethod
    def _words(error: Exception) -> tuple[str, None, None, str]:
        return (
            f"onnxruntime cannot run the model, so the import cannot be checked: "
            f"{first_line(error)}",
            None,
            None,
            "export the model for an operator set that onnxruntime supports, or load it "
            "with check=False at your own risk",
        )

    def _refusal(self, error: Exception) -> ImportRefused:
        return ImportRefused(*self._words(error))
