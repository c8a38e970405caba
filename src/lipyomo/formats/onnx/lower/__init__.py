"""Lowering of a graph to a network, by one function per operator.

Each module registers the operators of one kind; `lower_graph` iterates over the nodes.
"""

from lipyomo.formats.onnx.lower.driver import lower_graph
from lipyomo.formats.onnx.lower.registry import supported

__all__ = ["lower_graph", "supported"]
