"""From a graph to a network: one small function an operator.

Each module registers the operators of one kind; `lower_graph` walks through the nodes.
"""

from lipyomo.formats.onnx.lower.driver import lower_graph
from lipyomo.formats.onnx.lower.registry import supported

__all__ = ["lower_graph", "supported"]
