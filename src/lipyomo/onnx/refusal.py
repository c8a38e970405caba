"""Refuse an operator, and say where to cut the graph instead."""

from __future__ import annotations

from collections.abc import Sequence

from lipyomo.errors import ImportRefused
from lipyomo.onnx.graph import Node

SMOOTH = {
    "Softmax",
    "LogSoftmax",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Softsign",
    "Elu",
    "Celu",
    "Selu",
    "Gelu",
    "Mish",
    "HardSwish",
    "Swish",
    "Erf",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Pow",
    "Sin",
    "Cos",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "LpNormalization",
    "LRN",
    "Normalizer",
    "LSTM",
    "GRU",
    "RNN",
    "Attention",
    "LinearClassifier",
}
"""Operators that are not piecewise linear."""

STEPS = {
    "ArgMax",
    "ArgMin",
    "ZipMap",
    "Hardmax",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
    "Binarizer",
    "TopK",
    "ThresholdedRelu",
    "Shrink",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Equal",
    "LabelEncoder",
    "QuantizeLinear",
}
"""Operators with jumps, or with an output that is not a tensor of real numbers."""


def refusal(node: Node, variable: Sequence[int]) -> ImportRefused:
    """The error for a node that does not lower.

    Parameters
    ----------
    node : Node
    variable : sequence of int
        Positions of the inputs that depend on the network's input.

    Returns
    -------
    ImportRefused
    """
    if node.op_type in SMOOTH:
        why = "the operator is not piecewise linear"
    elif node.op_type in STEPS:
        why = "the operator is a step function or a choice, which has no Lipschitz constant"
    else:
        domain = f" of domain '{node.domain}'" if node.domain else ""
        why = f"the operator{domain} is not supported"
    tensor = node.inputs[variable[0]]
    return node.refuse(
        why,
        f"cut the graph before it with --output {tensor} (everything up to there can be imported), "
        "or replace the operator and export again",
    )
