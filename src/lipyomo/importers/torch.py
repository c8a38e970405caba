"""Networks from PyTorch modules: traced, written down as ONNX nodes, and lowered like a file."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lipyomo.errors import ImportRefused, MissingExtra
from lipyomo.network import Network
from lipyomo.onnx.importing import from_model

if TYPE_CHECKING:
    from torch.nn import Module

CHECK_POINTS = 16
"""Number of random points at which the network is compared with the module."""


def from_torch(
    module: Module, input_shape: Sequence[int] | None = None, name: str | None = None
) -> Network:
    """Turn a PyTorch module into a network, as it behaves in evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
        `nn.Sequential` or any module that `torch.fx` can trace, of Linear, Conv1d, Conv2d,
        BatchNorm1d, BatchNorm2d, ReLU, LeakyReLU, PReLU, ReLU6, Hardtanh, Hardsigmoid, AvgPool1d,
        AvgPool2d, MaxPool1d, MaxPool2d, AdaptiveAvgPool2d(1), Flatten, Dropout and Identity, with
        sums, concatenations and reshapes between them.
    input_shape : sequence of int, optional
        Shape of one input, without the batch.  Needed unless the first layer is Linear.
    name : str, optional
        Name of the network; the class of the module if left out.

    Returns
    -------
    Network
        A function of the flattened input; float32 weights are exact in float64.

    Raises
    ------
    MissingExtra
        If PyTorch is not installed.
    ImportRefused
        If a module or a call is not supported (it is named), the module cannot be traced, the
        input shape is missing, or the module computes something else than the network.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("torch", "torch", "importing PyTorch modules")
    from lipyomo.importers.torch_graph import write_graph

    shape = tuple(input_shape) if input_shape is not None else _first_shape(module)
    label = name or type(module).__name__
    network = from_model(write_graph(module, shape), check=False, name=label)
    _compare(network, module, shape)
    return network


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
        remedy="give input_shape, without the batch, for example (1, 28, 28)",
    )


def _compare(network: Network, module: Module, shape: tuple[int, ...]) -> None:
    """Compare with the module itself, in float64, at random points."""
    import copy

    import torch

    twin = copy.deepcopy(module).double().eval()
    points = np.random.default_rng(0).normal(size=(CHECK_POINTS, network.input_dim))
    found = network.forward(points)
    with torch.no_grad():
        rows = [twin(torch.from_numpy(point.reshape(1, *shape))).reshape(-1) for point in points]
    expected = torch.stack(rows).numpy()
    if expected.shape != found.shape:
        raise ImportRefused(
            f"the module returns {expected.shape[1]} numbers, the network {found.shape[1]}",
            remedy="please report this module",
        )
    scale = 1.0 + np.abs(expected).max()
    difference = float(np.abs(expected - found).max())
    if not difference <= 1e-8 * scale:
        raise ImportRefused(
            f"the network and the module disagree by {difference:.3g} at random points",
            remedy="please report this module; or export it to ONNX and load the file",
        )
