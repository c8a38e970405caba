"""Networks from PyTorch modules: written by PyTorch's own ONNX exporter, and lowered like a file.

The TorchScript exporter comes first: it takes a hundredth of the time of the other one, needs no
further package, and with the options below it folds nothing, so that weights stay as they are.
What it cannot write goes through the exporter that is built on ``torch.export``.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import onnx

from lipyomo.arguments import instance
from lipyomo.errors import ImportRefused
from lipyomo.network import Network
from lipyomo.onnx.graph import EVALUATOR_ERRORS, first_line
from lipyomo.onnx.importing import from_model
from lipyomo.onnx.write import COMPLETE_OPSET
from lipyomo.problem import LOOKS
from lipyomo.result import EXACT_TOLERANCE
from lipyomo.system.extras import installed, need

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class SoftplusThreshold(UserWarning):
    """PyTorch's Softplus jumps at its threshold; it was imported without."""


def from_torch(
    module: Module,
    example: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    input_shape: Sequence[int] | None = None,
) -> Network:
    """Turn a PyTorch module into a network, as it behaves in evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
        Any module, traced or scripted ones too, that PyTorch can export to ONNX and whose nodes
        are supported.
    example : torch.Tensor or sequence of int, optional
        A batch as the module takes it, of which only the shape counts; or the shape of one input,
        without the batch.  Needed unless the first layer is Linear.
    name : str, optional
        Name of the network; the class of the module if left out.
    input_shape : sequence of int, optional
        Shape of one input, instead of an example.

    Returns
    -------
    Network
        A function of one flattened input; float32 weights are exact in float64.

    Warns
    -----
    SoftplusThreshold
        If the module has a Softplus, which PyTorch computes as the identity above a threshold:
        that is a jump (2e-9 by default), and the network has none.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ImportRefused
        If PyTorch cannot export the module, a node is not supported (it is named), the input shape
        is missing, or the module computes something else than the network.
    """
    need("torch", "importing PyTorch modules")
    import torch

    instance(module, torch.nn.Module, "the module", ImportRefused, "give a torch.nn.Module")
    shape = _shape(module, example, input_shape)
    _check_softplus(module)
    label = name or getattr(module, "original_name", type(module).__name__)
    try:
        still = copy.deepcopy(module).eval()
    except (RuntimeError, TypeError) as error:
        raise ImportRefused(
            f"the module cannot be copied ({first_line(error)})",
            remedy="export it with torch.onnx.export and load the file",
        ) from None
    kinds = {p.dtype for p in still.parameters() if p.is_floating_point()}
    if kinds - {torch.float32, torch.float64} or len(kinds) > 1:
        raise ImportRefused(
            f"the weights are {', '.join(sorted(str(kind) for kind in kinds))}",
            remedy="convert the module with .float() or .double(), which change no weight",
        )
    example = torch.zeros(1, *shape, dtype=kinds.pop() if kinds else torch.float32)
    model = _exported(still, example)
    try:
        network = from_model(model, check=False, name=label)
    except ImportRefused as error:
        raise _for_modules(error) from None
    _compare(network, still, shape)
    return network


def _shape(
    module: Module, example: Tensor | Sequence[int] | None, input_shape: Sequence[int] | None
) -> tuple[int, ...]:
    """The shape of one input, without the batch."""
    import torch

    if example is not None and input_shape is not None:
        raise ImportRefused("both an example and input_shape are given", remedy="give one of them")
    if isinstance(example, torch.Tensor):
        if example.ndim < 2:
            raise ImportRefused(
                f"the example has the shape {tuple(example.shape)}, without a batch",
                remedy="give a batch, example[None] for a single input, or input_shape",
            )
        return tuple(example.shape[1:])
    given = input_shape if example is None else example
    return _first_shape(module) if given is None else tuple(given)


def _check_softplus(module: Module) -> None:
    """Warn of the thresholds of Softplus, and refuse those where it jumps visibly."""
    from torch import nn

    for name, child in module.named_modules():
        if isinstance(child, nn.Softplus):
            jump = float(np.log1p(np.exp(-child.threshold)) / abs(child.beta))
            what = f"PyTorch's Softplus ('{name}') jumps by {jump:.2g} at its threshold"
            if jump > EXACT_TOLERANCE:
                raise ImportRefused(
                    f"{what}, so it has no Lipschitz constant", remedy="use a threshold of 20"
                )
            warnings.warn(f"{what}; it is imported without", SoftplusThreshold, stacklevel=3)


def _first_shape(module: Module) -> tuple[int, ...]:
    """The input shape of a module that starts with a Linear layer."""
    from torch import nn

    for child in module.modules():
        if isinstance(child, nn.Linear):
            return (int(child.in_features),)
        if not isinstance(child, nn.Dropout | nn.Identity | nn.Flatten) and not list(
            child.children()
        ):
            break
    raise ImportRefused(
        "the module does not start with a Linear layer, so its input shape is not known",
        remedy="give input_shape, without the batch, for example (1, 28, 28); to lipschitz, a box "
        "or a center of that shape",
    )


FAILURES = (*EVALUATOR_ERRORS, AssertionError, ImportError)
"""What modules and exporters raise."""


@contextmanager
def _silence() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the exporters' notes instead of printing them."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            yield notes
    finally:
        logger.setLevel(level)


def _exported(module: Module, example: Tensor) -> onnx.ModelProto:
    """The module as an ONNX model for a batch of one."""
    import torch

    target = io.BytesIO()
    with _silence() as notes, torch.no_grad():
        try:
            module(example)
        except FAILURES as error:
            raise _refused(
                f"the module does not take one input of shape {tuple(example.shape[1:])}", error
            ) from None
        try:
            torch.onnx.export(
                module,
                (example,),
                target,
                dynamo=False,
                opset_version=COMPLETE_OPSET,
                do_constant_folding=False,  # nor any other rounding of weights: no BatchNorm is
                training=torch.onnx.TrainingMode.PRESERVE,  # fused into the layer before it
            )
        except FAILURES as error:  # the other exporter may do better
            if not installed("onnxscript"):
                raise _refused("PyTorch cannot export the module", error) from None
        else:
            doubts = [n for n in notes if issubclass(n.category, torch.jit.TracerWarning)]
            if doubts:
                raise _refused("the module makes choices that depend on its input", None)
            return onnx.load_from_string(target.getvalue())
        try:
            program = torch.onnx.export(
                module, (example,), dynamo=True, optimize=False, verbose=False
            )
        except FAILURES as error:
            raise _refused("PyTorch cannot export the module", error) from None
    model: onnx.ModelProto = program.model_proto
    return model


def _refused(what: str, error: Exception | None) -> ImportRefused:
    return ImportRefused(
        what if error is None else f"{what} ({first_line(error)[:200]})",
        remedy="check input_shape, and write the module without choices that depend on the input; "
        "or export it with torch.onnx.export and load the file",
    )


def _for_modules(error: ImportRefused) -> ImportRefused:
    """The refusal of a graph, with what to do about a module, which has no place to be cut at."""
    if "--output" not in (error.remedy or ""):
        return error
    said = str(error).removesuffix(f"\n  Remedy: {error.remedy}")
    place = str(ImportRefused("", error.node, error.op_type))
    remedy = "let the module return one tensor, computed before anything that is refused"
    return ImportRefused(said.removeprefix(place), error.node, error.op_type, remedy)


def _compare(network: Network, module: Module, shape: tuple[int, ...]) -> None:
    """Compare with the module itself, in float64, at random points."""
    import torch

    twin = copy.deepcopy(module).double()
    points = np.random.default_rng(0).normal(size=(LOOKS, network.input_dim))
    found = network.forward(points)
    with torch.no_grad():
        values = [twin(torch.from_numpy(point.reshape(1, *shape))) for point in points]
    expected = np.array([value.reshape(-1).numpy() for value in values])
    if expected.shape != found.shape:
        raise ImportRefused(
            f"the module returns {expected.shape[1]} numbers, the network {found.shape[1]}",
            remedy="please report this module",
        )
    scale = 1.0 + np.abs(expected).max()
    difference = float(np.abs(expected - found).max())
    # ONNX keeps slopes and the epsilon of a normalisation in float32, the twin in float64
    if not difference <= EXACT_TOLERANCE * scale:
        raise ImportRefused(
            f"the network and the module disagree by {difference:.3g} at random points: PyTorch's "
            "exporter does not write down what the module computes",
            remedy="replace the layers that it does not know, or report this module",
        )
