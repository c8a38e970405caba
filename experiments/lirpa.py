"""Bounds of the Clarke Jacobian by auto_LiRPA (Shi et al., NeurIPS 2022), where it is installed.

The package with these bounds (0.4 and later) is not on PyPI, whose 0.3 has none: see its own pages.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from experiments.training.loop import import_torch
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError


def has_lirpa() -> bool:
    """Whether a version with bounds of Jacobians is installed."""
    try:
        import auto_LiRPA.jacobian  # noqa: F401
    except ImportError:
        return False
    return True


def module_of(path: Path) -> tuple[Any, tuple[int, ...]]:
    """A chain of ``Conv``, ``Gemm``, ``Relu`` and ``Flatten`` as a PyTorch module, its input shape.

    Raises
    ------
    ProblemError
        If the file holds anything else.
    """
    torch = import_torch()
    graph = onnx.load(path).graph
    weights = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    source = next(item for item in graph.input if item.name not in weights)
    shape = tuple(max(axis.dim_value, 1) for axis in source.type.tensor_type.shape.dim)
    parts: list[Any] = []
    for node in graph.node:
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        arrays = [torch.from_numpy(weights[name].copy()) for name in node.input if name in weights]
        if node.op_type == "Conv":
            weight = arrays[0]
            part = torch.nn.Conv2d(
                weight.shape[1],
                weight.shape[0],
                tuple(weight.shape[2:]),
                stride=tuple(attributes.get("strides", (1, 1))),
                padding=tuple(attributes.get("pads", (0, 0))[:2]),
            )
        elif node.op_type == "Gemm":
            weight = arrays[0] if attributes.get("transB", 0) else arrays[0].T.contiguous()
            part = torch.nn.Linear(weight.shape[1], weight.shape[0])
        elif node.op_type in ("Relu", "Flatten"):
            parts.append(torch.nn.ReLU() if node.op_type == "Relu" else torch.nn.Flatten())
            continue
        else:
            raise ProblemError(f"'{path}' has an operator {node.op_type}: only chains are compared")
        part.weight.data = weight
        part.bias.data = arrays[1] if len(arrays) > 1 else torch.zeros(weight.shape[0])
        parts.append(part)
    return torch.nn.Sequential(*parts), shape


def lirpa_bound(
    path: Path, center: FloatArray, radius: float, functionals: FloatArray, optimise: bool
) -> tuple[float, float]:
    """Its upper bound for a linf ball and the largest of some functionals, and its seconds.

    Parameters
    ----------
    path : Path
        The ONNX file.
    center : ndarray, shape (d,)
    radius : float
    functionals : ndarray, shape (k, m)
    optimise : bool
        alpha-CROWN instead of CROWN.
    """
    torch = import_torch()
    from auto_LiRPA import BoundedModule, BoundedTensor
    from auto_LiRPA.jacobian import GradNorm, JacobianOP
    from auto_LiRPA.perturbations import PerturbationLpNorm

    class Steepness(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model, self.norm = model, GradNorm(norm=1)

        def forward(self, x: Any, functional: Any) -> Any:
            return self.norm(JacobianOP.apply(self.model(x).matmul(functional), x))

    model, shape = module_of(path)
    began = time.perf_counter()
    x0 = torch.from_numpy(center.astype(np.float32)).reshape(shape)
    rows = torch.from_numpy(functionals.astype(np.float32))
    bounded = BoundedModule(Steepness(model), (BoundedTensor(x0), rows[0][:, None]), device="cpu")
    ball = BoundedTensor(x0, PerturbationLpNorm(norm=np.inf, eps=radius))
    uppers = [
        bounded.compute_jacobian_bounds((ball, y[:, None]), optimize=optimise, bound_lower=False)[1]
        for y in rows
    ]
    return max(float(upper.max()) for upper in uppers), time.perf_counter() - began
