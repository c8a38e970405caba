"""A traced PyTorch module as an ONNX graph of the operators that the importer lowers."""

from __future__ import annotations

import copy

import onnx
import torch
from onnx import helper
from torch import fx, nn

from lipyomo.errors import ImportRefused
from lipyomo.importers.torch_calls import tensor_name, write_call
from lipyomo.importers.torch_modules import is_supported, module_nodes
from lipyomo.importers.torch_writer import Writer
from lipyomo.onnx.graph import first_line

OPSET = 17


def write_graph(module: nn.Module, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Trace a module and write its graph with ONNX operators.

    Parameters
    ----------
    module : nn.Module
    shape : tuple of int
        Shape of one input, without the batch.

    Returns
    -------
    onnx.ModelProto
        In float64.

    Raises
    ------
    ImportRefused
        If the module cannot be traced, or a part of it is not supported.
    """
    if is_supported(module):
        module = nn.Sequential(module)  # tracing goes into its argument, but not into parts
    try:
        graph = fx.Tracer().trace(module)
    except (fx.proxy.TraceError, TypeError, RuntimeError, ValueError, NameError) as error:
        raise ImportRefused(
            f"the {type(module).__name__} cannot be traced ({first_line(error)})",
            remedy="export it with torch.onnx.export and load the file",
        ) from None
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise ImportRefused(
            f"the module takes {len(inputs)} inputs ({', '.join(inputs)}); one is needed",
            remedy="wrap it in a module that splits one input",
        )
    writer = Writer()
    twin = copy.deepcopy(module).double().eval()
    walk = _Walk(fx.GraphModule(twin, graph), writer)
    try:
        with torch.no_grad():
            walk.run(torch.zeros(1, *shape, dtype=torch.float64))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ImportRefused(
            f"the {type(module).__name__} does not take an input of shape {shape} "
            f"({first_line(error)})",
            remedy="give input_shape, without the batch, for example (1, 28, 28)",
        ) from None
    double = onnx.TensorProto.DOUBLE
    proto = helper.make_graph(
        writer.nodes,
        type(module).__name__,
        [helper.make_tensor_value_info(inputs[0], double, [1, *shape])],
        [helper.make_tensor_value_info(walk.output_name, double, None)],
        writer.constants,
    )
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)])


class _Walk(fx.Interpreter):
    """Writes each node of the graph, then runs it, so that the shapes before it are known.

    Parameters
    ----------
    module : fx.GraphModule
    writer : Writer
    """

    def __init__(self, module: fx.GraphModule, writer: Writer) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.writer = writer
        self.output_name = ""

    def run_node(self, node: fx.Node) -> object:
        """Write and run one node."""
        if node.op == "get_attr":
            value = self.writer.constant(_attribute(self.module, node.target))
            self.writer.node("Identity", [value], node.name, node.target)
        elif node.op == "call_module":
            child = self.module.get_submodule(node.target)
            module_nodes(self.writer, child, node.target, tensor_name(node, 0), node.name)
        elif node.op == "output":
            self.output_name = _output(node)
        elif node.op != "placeholder":
            write_call(self.writer, node)
        result = super().run_node(node)
        if isinstance(result, torch.Tensor):
            self.writer.ranks[node.name] = result.ndim
        return result


def _attribute(module: nn.Module, target: str) -> torch.Tensor:
    *path, last = target.split(".")
    owner = module.get_submodule(".".join(path))
    return torch.as_tensor(getattr(owner, last))


def _output(node: fx.Node) -> str:
    value = node.args[0]
    if not isinstance(value, fx.Node):
        raise ImportRefused(
            "the module returns several values",
            node=node.name,
            remedy="wrap it in a module that returns one tensor",
        )
    return str(value.name)
