"""Networks of small graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Network
from lipyomo.formats.onnx import from_model

Step = tuple[str, str, str, dict[str, Any]]
"""An operator, its inputs in one text, its output, and its attributes."""


def network_of(steps: Sequence[Step], arrays: Mapping[str, np.ndarray], inputs: int) -> Network:
    """The network of a graph from x, with so many inputs, to one output y."""
    nodes = [
        helper.make_node(kind, given.split(), [output], **more)
        for kind, given, output, more in steps
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1, count])]
        for name, count in (("x", inputs), ("y", 1))
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "graph", *ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return from_model(model, check=False)
