"""Errors for unsupported operators, which suggest where to cut the graph."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx.graph import GraphNode

NONLINEAR = {
    "Softmax", "LogSoftmax", "Exp", "Log", "Sqrt", "Reciprocal", "Pow", "Tan",
    "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
    "LpNormalization", "LRN", "Normalizer", "LSTM", "GRU", "RNN", "LinearClassifier",
    "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum",
    "MeanVarianceNormalization",
}  # fmt: skip
"""Operators that are neither piecewise linear nor an activation of single signals."""

STEPS = {
    "ArgMax", "ArgMin", "ZipMap", "Hardmax", "Sign", "Floor", "Ceil", "Round", "Binarizer",
    "TopK", "ThresholdedRelu", "Shrink", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "Equal", "LabelEncoder", "QuantizeLinear", "Where", "Not", "And", "Or", "Xor",
}  # fmt: skip
"""Operators with jumps, or with an output that is not a tensor of real numbers."""


QUANTISED = {
    "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger",
    "QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat",
    "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearWhere",
    "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "DynamicQuantizeLSTM", "QAttention",
}  # fmt: skip
"""Operators of quantised networks other than QuantizeLinear and DequantizeLinear."""

_WHOLE = "the operator computes with whole numbers"

SHAPES = {
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
    "ArrayFeatureExtractor", "Concat", "Sub",
}  # fmt: skip
"""Operators that often follow a final Softmax."""


def refusal(
    node: GraphNode,
    variable: Sequence[int],
    later: Sequence[GraphNode],
    input_name: str,
    rounded: bool = False,
) -> ImportRefused:
    """Return the error for a node that cannot be lowered.

    Parameters
    ----------
    node : GraphNode
    variable : sequence of int
        Positions of the inputs that depend on the network's input.
    later : sequence of GraphNode
        The following nodes.
    input_name : str
        The network's input, before which no cut is possible.
    rounded : bool, optional
        Whether the node reads a quantised signal.

    Returns
    -------
    ImportRefused
        Suggests where to cut.  The graph before this node is supported, so the cut can be imported.
    """
    known = node.op_type in NONLINEAR | STEPS
    if node.op_type in NONLINEAR:
        why = "the operator is neither piecewise linear nor an activation of single signals"
    elif node.op_type in STEPS:
        why = "the operator is a step function or a choice, which has no Lipschitz constant"
    else:
        domain = f" of domain '{node.domain}'" if node.domain else ""
        why = f"the operator{domain} is not supported"
    if node.op_type == "MatMulNBits":
        return node.refuse(
            "the weights are quantised, and packed in a way of onnxruntime's own",
            "quantise them with MatMulNBitsQuantizer(..., quant_format=QuantFormat.QDQ), or import "
            "the float network",
        )
    if node.op_type in QUANTISED or rounded:
        dynamic = node.op_type.startswith("Dynamic")
        what = "the scale of what is rounded depends on the input" if dynamic else _WHOLE
        return node.refuse(
            f"{what}: rounding makes a step function, which has no Lipschitz constant, and only "
            "pairs of QuantizeLinear and DequantizeLinear have values that are bounded",
            "quantise the network in this form (onnxruntime: quantize_static with "
            "quant_format=QuantFormat.QDQ), or import the float network",
        )
    if node.domain.startswith("com.microsoft"):
        return node.refuse(why, "import the model as it was before onnxruntime optimised it")
    return node.refuse(
        why, remedy(node.op_type, node.inputs[variable[0]], later, input_name, known)
    )


def remedy(
    op_type: str, tensor: str, later: Sequence[GraphNode], input_name: str, known: bool = True
) -> str:
    """Return the remedy for a node that cannot be lowered.

    Parameters
    ----------
    op_type : str
        The node's operator.
    tensor : str
        The input of the node at which the graph could be cut.
    later : sequence of GraphNode
        The following nodes.  A cut is only suggested if they convert the network's outputs to
        probabilities or labels; a cut before layers would change the network.
    input_name : str
        The network's input, before which no cut is possible.
    known : bool, optional
        Whether the operator is known.
    """
    better = _BETTER.get(op_type, _OTHER if known else _UNKNOWN)
    if tensor == input_name:
        return f"{better} and export again"
    if all(other.op_type in NONLINEAR | STEPS | SHAPES for other in later):
        return f"cut the graph before it: --output-node {shlex.quote(tensor)}"
    count = len(later)
    return (
        f"{better} and train again.  Cutting the graph before it is no help: {count} "
        f"node{'s' * (count != 1)} of the network come after it"
    )


_OTHER = "replace it by activations of single signals (Relu, Tanh, Gelu, HardSigmoid)"
_UNKNOWN = "write it with operators that are supported (the page on importing lists them)"
_BETTER = {
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
         "MeanVarianceNormalization", "LpNormalization", "LRN", "Normalizer"),
        "replace it by BatchNormalization, which is affine once it is trained,",
    ),
    **dict.fromkeys(
        ("LSTM", "GRU"),
        "replace it by layers without products of signals (Gemm, Conv, Relu, Tanh)",
    ),
    "RNN": "write its steps out as layers (Gemm, Tanh), for a sequence of fixed length,",
    **dict.fromkeys(
        ("ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
        "replace it by ReduceL1, ReduceMax or ReduceMean, which are piecewise linear,",
    ),
}  # fmt: skip
"""Replacements of unsupported operators."""
