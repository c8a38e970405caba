"""ONNX models: reading, lowering to a network, comparison with onnxruntime, writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipyomo.base.modules import imported_when_used

if TYPE_CHECKING:
    from lipyomo.formats.onnx.check import check_against_runtime
    from lipyomo.formats.onnx.export import to_onnx, write
    from lipyomo.formats.onnx.importing import from_model, load
    from lipyomo.formats.onnx.quantised import check_quantised, load_quantised

__all__ = [
    "check_against_runtime",
    "check_quantised",
    "from_model",
    "load",
    "load_quantised",
    "to_onnx",
    "write",
]

__getattr__, __dir__ = imported_when_used(
    __name__,
    {
        ".check": ("check_against_runtime",),
        ".importing": ("from_model", "load"),
        ".quantised": ("check_quantised", "load_quantised"),
        ".export": ("to_onnx", "write"),
    },
)
