"""PyTorch modules as ONNX models, by either exporter."""

from __future__ import annotations

import io
import warnings
from typing import Any

import onnx

from experiments.training.loop import import_torch


def export(module: Any, shape: tuple[int, ...], exporter: str = "torchscript") -> onnx.ModelProto:
    """Export a PyTorch module with a symbolic batch axis.

    Parameters
    ----------
    module : torch.nn.Module
        What to export.
    shape : tuple of int
        Shape of one input, without the batch axis.
    exporter : {"torchscript", "dynamo"}
        Which of PyTorch's exporters to use; "dynamo" needs the package onnxscript.

    Returns
    -------
    onnx.ModelProto
        The model, without source lines and file names.
    """
    torch = import_torch()
    module.eval()
    example = (torch.zeros(2, *shape),)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation notes of either exporter
        if exporter == "dynamo":
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                opset_version=18,
                input_names=["input"],
                output_names=["output"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
            model = program.model_proto
        elif exporter == "torchscript":
            torch.onnx.export(
                module,
                example,
                buffer,
                dynamo=False,
                opset_version=17,
                input_names=["input"],
                output_names=["output"],
                dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
            )
            model = onnx.load_from_string(buffer.getvalue())
        else:
            raise ValueError(f"exporter is '{exporter}'; give 'torchscript' or 'dynamo'")
    _anonymise(model)
    return model


def _anonymise(model: onnx.ModelProto) -> None:
    """Remove what exporters note of the exporting machine: source lines and file names."""
    model.doc_string = ""
    model.graph.doc_string = ""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for values in (model.graph.value_info, model.graph.input, model.graph.output):
        for value in values:
            value.doc_string = ""
            del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
