"""ONNX models in and out: read, lower to the one small form, check against onnxruntime, write."""

from __future__ import annotations

from lipyomo.onnx.check import check_against_runtime
from lipyomo.onnx.importing import from_model, load
from lipyomo.onnx.write import to_onnx, write

__all__ = ["check_against_runtime", "from_model", "load", "to_onnx", "write"]
