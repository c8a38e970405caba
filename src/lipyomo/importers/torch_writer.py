"""Collects the nodes and constants of a graph that is made from a PyTorch module."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper


class Writer:
    """Collects the nodes and constants of the graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.ranks: dict[str, int] = {}

    def rank(self, tensor: str) -> int:
        """Number of axes of a tensor, the batch included."""
        return self.ranks[tensor]

    def constant(self, values: object) -> str:
        """Store a tensor or a number; floats become float64 (exactly)."""
        if isinstance(values, torch.Tensor):
            array = values.detach().cpu().double().numpy()
        else:
            array = np.asarray(values)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(
        self,
        op_type: str,
        inputs: list[str],
        output: str,
        name: str,
        **attributes: int | float | str | list[int],
    ) -> None:
        """Add one node."""
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
