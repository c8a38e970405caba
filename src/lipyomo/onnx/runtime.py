"""A model in onnxruntime, as a function of the flattened input."""

from __future__ import annotations

import numpy as np
import onnx

from lipyomo.errors import ImportRefused
from lipyomo.network import FloatArray
from lipyomo.onnx.graph import first_line, ordered
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


def _precision(graph: onnx.GraphProto) -> float:
    """Unit roundoff of the least precise real type that the graph mentions."""
    kinds = {tensor.data_type for tensor in graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in graph.input}
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


class Runtime:
    """A model in onnxruntime.

    Parameters
    ----------
    model : onnx.ModelProto
    output : str, optional
        Tensor or node to cut at.

    Attributes
    ----------
    dtype : type
        Of the input.
    eps : float
        Unit roundoff of the evaluation.
    size : int
        Number of inputs.

    Raises
    ------
    ImportRefused
        If onnxruntime cannot run the model.
    """

    def __init__(self, model: onnx.ModelProto, output: str | None = None) -> None:
        import onnxruntime

        cut = cut_model(model, output)
        value = choose_input(cut.graph, ordered(cut.graph, cut.graph.output[0].name)[1])
        self._name = value.name
        self._shape = input_shape(value)
        self.size = int(np.prod(self._shape))
        self.dtype = _DTYPES.get(value.type.tensor_type.elem_type, np.float32)
        self.eps = _precision(cut.graph)
        self._errors = _runtime_errors()
        _expose(cut, self._name)
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
            raise self._refusal(error) from None

    def __call__(self, x: FloatArray) -> tuple[FloatArray, float]:
        """The flattened output at one point, and the largest number that was met on the way."""
        feed = {self._name: x.astype(self.dtype).reshape(self._shape)}
        try:
            values = self._session.run(None, feed)
        except self._errors as error:
            raise self._refusal(error) from None
        met = [v for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        largest = max((float(np.abs(v).max(initial=0.0)) for v in met), default=0.0)
        return np.asarray(values[0], dtype=np.float64).reshape(-1), largest

    @staticmethod
    def _refusal(error: Exception) -> ImportRefused:
        return ImportRefused(
            f"onnxruntime cannot run the model, so the import cannot be checked: "
            f"{first_line(error)}",
            remedy="export the model for an operator set that onnxruntime supports, or load it "
            "with check=False at your own risk",
        )
