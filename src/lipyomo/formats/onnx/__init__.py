"""ONNX models in and out: read, lower to the one small form, check against onnxruntime, write."""

from __future__ import annotations

from lipyomo.formats.onnx.check import check_against_runtime
from lipyomo.formats.onnx.importing import from_model, load
from lipyomo.formats.onnx.quantised import check_quantised, load_quantised
from lipyomo.formats.onnx.write import to_onnx, write

__all__ = [
    "check_against_runtime",
    "check_quantised",
    "from_model",
    "load",
    "load_quantised",
    "to_onnx",
    "write",
]
