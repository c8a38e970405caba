"""Files of other formats that are given for ONNX: what they are, by their first bytes."""

from __future__ import annotations

import io
import re
import zipfile

TORCH = "load it in Python and give the module to lipyomo.from_torch, or to torch.onnx.export"
KERAS = "load it in Keras and write it with model.export('net.onnx', format='onnx')"
PICKLE = "load it in Python; from_torch and from_sklearn take modules and estimators"

_BEGINNINGS = (
    (rb"\x89HDF\r\n", "an HDF5 file, as Keras writes (.h5)", KERAS),
    (rb"\x93NUMPY", "a NumPy file (.npy)", "give the network first, and data after it"),
    (rb"\x80[\x02-\x05]", "a Python pickle (.pkl, .joblib, or .pt of old PyTorch)", PICKLE),
    (rb"\x1f\x8b", "compressed (gzip)", "unpack it first, for example with gunzip"),
    (rb"....TFL3", "a TensorFlow Lite file (.tflite)", "convert it with tf2onnx --tflite"),
    (rb".{6}\0\0\{\"", "a safetensors file, weights without a network", TORCH),
    (rb"\s*[{\[<]", "text, such as JSON or XML", "give the path of an .onnx file"),
)


def foreign(data: bytes) -> tuple[str, str] | None:
    """What a file is and what to do with it, if it is of a known format that is not ONNX.

    Parameters
    ----------
    data : bytes
        All of the file.
    """
    if data[:4] == b"PK\x03\x04":
        return _archive(data)
    for beginning, kind, remedy in _BEGINNINGS:
        if re.match(beginning, data[:16], re.DOTALL):
            return kind, remedy
    return None


def _archive(data: bytes) -> tuple[str, str]:
    """What a zip archive is."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except zipfile.BadZipFile:
        names = []
    if any(name.endswith(("data.pkl", "constants.pkl")) for name in names):
        return "a PyTorch file (.pt, .pth)", TORCH
    if any(name.endswith((".weights.h5", "config.json")) for name in names):
        return "a Keras file (.keras)", KERAS
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive (.npz)", "give the network first, and data after it"
    return "a zip archive", "unpack it, and give the .onnx file in it"
