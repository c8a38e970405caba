"""Importer of PyTorch modules: exported by PyTorch to ONNX, and lowered like a file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lipyomo.base.arguments import instance, warn_caller
from lipyomo.base.errors import ImportRefused
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.extras import need
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.importers.exporting import eagerly, exported, still_copy, uncompiled
from lipyomo.formats.onnx.gates import SoftplusThreshold, softplus_jump
from lipyomo.formats.onnx.importing import from_model
from lipyomo.networks.network import Network
from lipyomo.problems.problem import LOOKS

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@with_one_blas_thread
def from_torch(
    module: Module,
    example: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    input_shape: Sequence[int] | None = None,
) -> Network:
    """Convert a PyTorch module, in evaluation mode, to a network.

    Parameters
    ----------
    module : torch.nn.Module
        Any module (also traced, scripted or compiled) that PyTorch can export to ONNX with
        supported operators.
    example : torch.Tensor or sequence of int, optional
        A batch of inputs, of which only the shape is used; or the shape of one input, without the
        batch.  Required unless the first layer is Linear.
    name : str, optional
        Name of the network; by default the class of the module.
    input_shape : sequence of int, optional
        Shape of one input, instead of an example.

    Returns
    -------
    Network
        A function of one flattened input; float32 weights are exact in float64.

    Warns
    -----
    SoftplusThreshold
        If the module has a Softplus, which PyTorch replaces by the identity above a threshold: that
        is a jump (2e-9 by default), which the network does not have.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ImportRefused
        If PyTorch cannot export the module, a node is not supported (the message names it), the
        input shape is missing, or the module's outputs differ from the network's.
    """
    need("torch", "importing PyTorch modules")
    import torch

    instance(module, torch.nn.Module, "the module", ImportRefused, "give a torch.nn.Module")
    module = uncompiled(module)
    shape = _shape(module, example, input_shape)
    _check_jumps(module)
    label = name or getattr(module, "original_name", type(module).__name__)
    still = still_copy(module)
    kinds = {p.dtype for p in still.parameters() if p.is_floating_point()}
    if kinds - {torch.float32, torch.float64} or len(kinds) > 1:
        raise ImportRefused(
            f"the weights are {', '.join(sorted(str(kind) for kind in kinds))}",
            remedy="convert the module with .float() or .double(), which change no weight",
        )
    example = torch.zeros(1, *shape, dtype=kinds.pop() if kinds else torch.float32)
    with eagerly():
        model = exported(still, example)
        try:
            network = from_model(model, check=False, name=label)
        except ImportRefused as error:
            raise _for_modules(error) from None
        _compare(network, still, shape)
    return network


def _shape(
    module: Module, example: Tensor | Sequence[int] | None, input_shape: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the shape of one input, without the batch."""
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


def _check_jumps(module: Module) -> None:
    """Refuse discontinuous activations; a negligible jump of Softplus is a warning."""
    for name, child in module.named_modules():
        jump = _jump(child)
        if jump:
            _check_jump(type(child).__name__, f" ('{name}')", jump)


def _check_jump(kind: str, place: str, jump: float) -> None:
    what = f"PyTorch's {kind}{place} jumps by {jump:.2g} at its threshold"
    if jump > EXACT_TOLERANCE or kind != "Softplus":
        raise ImportRefused(f"{what}, so it has no Lipschitz constant", remedy=_CONTINUOUS[kind])
    warn_caller(f"{what}; it is imported without", SoftplusThreshold)


_CONTINUOUS = {
    "Softplus": "use a threshold of 20",
    "Threshold": "use a value that is the threshold, or ReLU",
    "Hardshrink": "use Softshrink",
}
"""Remedies for discontinuous activations."""


def _jump(activation: Module) -> float:
    """Return the size of an activation's jump."""
    from torch import nn

    if isinstance(activation, nn.Softplus):
        return _jump_of(activation.beta, activation.threshold)
    if isinstance(activation, nn.Threshold):
        return abs(float(activation.value) - float(activation.threshold))
    return max(float(activation.lambd), 0.0) if isinstance(activation, nn.Hardshrink) else 0.0


def _jump_of(beta: float = 1.0, threshold: float = 20.0) -> float:
    """Return the jump of a softplus, with the default values of PyTorch."""
    return softplus_jump(1.0 / abs(beta), threshold)


def _softplus_calls() -> Any:
    """Return a context that collects, in `jumps`, the jumps of the softplus functions called."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.jumps: set[float] = set()

        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.softplus:
                known = {key: v for key, v in (kwargs or {}).items() if key != "input"}
                self.jumps.add(_jump_of(*args[1:], **known))
            return func(*args, **(kwargs or {}))

    return Calls()


def _first_shape(module: Module) -> tuple[int, ...]:
    """Return the input shape of a module that starts with a Linear layer."""
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


def _for_modules(error: ImportRefused) -> ImportRefused:
    """Replace the remedy to cut a graph by one for modules, which cannot be cut."""
    if "--output-node" not in (error.remedy or ""):
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
    with torch.no_grad(), _softplus_calls() as calls:
        values = [twin(torch.from_numpy(point.reshape(1, *shape))) for point in points]
    expected = np.array([value.reshape(-1).numpy() for value in values])
    if expected.shape != found.shape:
        raise ImportRefused(
            f"the module returns {expected.shape[1]} numbers, the network {found.shape[1]}",
            remedy="please report this module",
        )
    for jump in calls.jumps - {_jump(child) for child in module.modules()}:
        _check_jump("Softplus", "", jump)
    scale = 1.0 + np.abs(expected).max()
    difference = float(np.abs(expected - found).max())
    # ONNX keeps slopes and the epsilon of a normalisation in float32, the twin in float64
    if not difference <= EXACT_TOLERANCE * scale:
        raise ImportRefused(
            f"the network and the module disagree by {difference:.3g} at random points: PyTorch's "
            "exporter does not write down what the module computes",
            remedy="replace the layers that it does not know, or report this module",
        )
