"""From a graph to a network: one small function an operator.

Each module registers the operators of one kind; `lower_graph` walks through the nodes.
"""

from lipyomo.onnx.lower.driver import lower_graph
from lipyomo.onnx.lower.registry import supported

__all__ = ["lower_graph", "supported"]
