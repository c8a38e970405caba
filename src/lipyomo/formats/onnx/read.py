"""Reading of model files, with a clear error for every kind of invalid file.

Files of other formats are recognised by their first bytes.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import (
    ExternalDataInfo,
    load_external_data_for_model,
    uses_external_data,
)

from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.memory import DEEPEST
from lipyomo.base.system.outputs import shown, why
from lipyomo.formats.onnx.graph import branches, first_line
from lipyomo.networks.building.budget import budget

NODE_BYTES = 20_000
"""Bytes of memory per node during the import."""

PathLike: TypeAlias = "str | os.PathLike[str]"


class Opened(NamedTuple):
    """A model without local functions, and its name."""

    model: onnx.ModelProto
    name: str


def read_model(path: PathLike) -> onnx.ModelProto:
    """Read an ONNX file with its external data.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ImportRefused
        If the file is missing, is not ONNX or truncated, or its external data are missing or
        truncated.
    """
    file = Path(path)
    if not os.fspath(path):
        raise ImportRefused("the path is empty", remedy="give the path of an .onnx file")
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            remedy = "give the path of an .onnx file"
            raise ImportRefused(f"{shown(file)} is not a file", remedy=remedy)
        budget().charge(2.0 * found.st_size, f"reading {shown(file)}")
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ImportRefused(f"there is no file {shown(file)}", remedy="check the path") from None
    except (OSError, ValueError) as error:  # a zero byte in a name is a ValueError
        remedy = "check the path, and the permissions of the file"
        raise ImportRefused(f"{shown(file)} cannot be read: {why(error)}", remedy=remedy) from None
    other = foreign(data)
    if other is not None:
        kind, remedy = other
        raise ImportRefused(f"{shown(file)} is {kind}, not an ONNX model", remedy=remedy)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ImportRefused(
            f"'{file}' is not an ONNX model, or it is cut short ({len(data)} bytes)",
            remedy="export the model to ONNX again, or copy the file again",
        ) from None
    check_model(model, str(file))
    _load_external(model, file)
    return model


def opened(model: onnx.ModelProto | PathLike, name: str | None = None) -> Opened:
    """Return a model or the content of a file, checked, and its name.

    Parameters
    ----------
    model : onnx.ModelProto or path
    name : str, optional
        By default that of the file or the graph.

    Raises
    ------
    ImportRefused
        As of `read_model`.
    """
    if not isinstance(model, onnx.ModelProto):
        # decoded as UTF-8, independent of the locale
        name = os.fsencode(Path(model).stem).decode("utf-8", errors="backslashreplace")
        model = read_model(model)
    name = name or model.graph.name
    check_model(model, name or "model")
    return Opened(inlined(model), name or "network")


def check_model(model: onnx.ModelProto, what: str) -> None:
    """Refuse a message without a graph, operator sets or outputs.

    A truncated file can still be a valid message, only without its last fields.

    Parameters
    ----------
    model : onnx.ModelProto
    what : str
        Name of the model in messages.

    Raises
    ------
    ImportRefused
    """
    missing = []
    if not model.HasField("graph"):
        missing.append("graph")
    elif not model.graph.output:
        missing.append("graph output")
    if not model.opset_import:
        missing.append("operator set")
    remedy = "export the model to ONNX again, or copy the file again"
    if not _is_text(model):
        raise ImportRefused(f"'{what}' is damaged: it holds names that are not text", remedy=remedy)
    if missing:
        said = f"it has no {' and no '.join(missing)}"
        raise ImportRefused(f"'{what}' is not a complete ONNX model: {said}", remedy=remedy)


def _names(model: onnx.ModelProto) -> Iterator[str]:
    """Yield all names that the import reads."""
    graph = model.graph
    yield graph.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (opset.domain for opset in model.opset_import)


def _is_text(model: onnx.ModelProto) -> bool:
    """Return whether all names are text; a damaged file may have other bytes."""
    try:
        return all(isinstance(name, str) for name in _names(model))
    except UnicodeDecodeError:
        return False


def _external_bytes(model: onnx.ModelProto, folder: Path) -> float:
    """Return the declared size of external data in bytes."""
    total = 0.0
    for tensor in model.graph.initializer:
        if not uses_external_data(tensor):
            continue
        try:
            length = ExternalDataInfo(tensor).length
            total += length or (folder / ExternalDataInfo(tensor).location).stat().st_size
        except (OSError, ValueError):
            continue  # reported when it is read
    return total


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline the local functions of a model.

    Raises
    ------
    ImportRefused
        If a function is recursive, or the inlined graph is too large.
    """
    if not model.functions:
        return model
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], float] = {}

    def size(nodes: Iterable[onnx.NodeProto], above: tuple[tuple[str, str], ...]) -> float:
        total = 0.0
        for node in nodes:
            key = (node.domain, node.op_type)
            total += 1.0 + sum(size(inner.node, above) for inner in branches(node).values())
            if key not in functions:
                continue
            if key in above or len(above) > DEEPEST:
                raise ImportRefused(
                    f"the local function '{node.op_type}' calls itself, or calls are nested more "
                    f"than {DEEPEST} deep",
                    node=node.name,
                    op_type=node.op_type,
                    remedy="export the model without local functions (onnx.inliner)",
                )
            if key not in sizes:
                sizes[key] = size(functions[key].node, (*above, key))
            total += sizes[key]
        return total

    count = size(model.graph.node, ())
    budget().charge(NODE_BYTES * count, f"a graph of {count:.3g} nodes")
    from onnx.inliner import inline_local_functions

    return inline_local_functions(model)


def _load_external(model: onnx.ModelProto, file: Path) -> None:
    """Read tensors that are stored in other files beside the model."""
    external = [t.name for t in model.graph.initializer if uses_external_data(t)]
    if not external and not any(
        attribute.HasField("t") and uses_external_data(attribute.t)
        for node in model.graph.node
        for attribute in node.attribute
    ):
        return
    budget().charge(_external_bytes(model, file.parent), f"the weights beside '{file}'")
    try:
        load_external_data_for_model(model, str(file.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ImportRefused(
            f"'{file}' keeps weights in other files, which cannot be read: {first_line(error)}",
            remedy="put the external data files beside the model under their old names",
        ) from None


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
    """Return the format of a file and a remedy, if it is of a known format other than ONNX.

    Parameters
    ----------
    data : bytes
        The content of the file.
    """
    if data[:4] == b"PK\x03\x04":
        return _archive(data)
    for beginning, kind, remedy in _BEGINNINGS:
        if re.match(beginning, data[:16], re.DOTALL):
            return kind, remedy
    return None


def _archive(data: bytes) -> tuple[str, str]:
    """Return the format of a zip archive and a remedy."""
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
