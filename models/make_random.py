"""Draw the LipMIP paper's random networks: [16, 16, 16, 2] and [10, 10, 10, 1] (appendix F.2).

    python -m models.make_random

Weights are He-normal. The paper says nothing of the biases: uniform in +-1/sqrt(inputs) here. The
files are written with onnx alone, as MatMul and Add with the weights on the right, the way Keras
exports dense layers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from experiments.recipes import RANDOM
from experiments.training import he_network
from models.provenance import HERE, Training, save


def matmul_model(
    weights: list[NDArray[np.float64]], biases: list[NDArray[np.float64]]
) -> onnx.ModelProto:
    """Write a dense ReLU network as MatMul, Add and Relu nodes.

    Parameters
    ----------
    weights, biases : list of ndarray
        Shapes (units, inputs) and (units,).

    Returns
    -------
    onnx.ModelProto
        Input ``input`` (batch, d), output ``output`` (batch, m), opset 13.
    """
    nodes, tensors, value = [], [], "input"
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        last = k == len(weights) - 1
        tensors += [
            numpy_helper.from_array(weight.T.astype(np.float32), f"kernel_{k}"),
            numpy_helper.from_array(bias.astype(np.float32), f"bias_{k}"),
        ]
        nodes.append(helper.make_node("MatMul", [value, f"kernel_{k}"], [f"product_{k}"]))
        value = "output" if last else f"dense_{k}"
        nodes.append(helper.make_node("Add", [f"product_{k}", f"bias_{k}"], [value]))
        if not last:
            nodes.append(helper.make_node("Relu", [value], [f"relu_{k}"]))
            value = f"relu_{k}"
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", weights[0].shape[1]])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", len(biases[-1])])],
        tensors,
    )
    return helper.make_model(
        graph,
        producer_name="lipyomo",
        ir_version=8,
        opset_imports=[helper.make_operatorsetid("", 13)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw random networks.")
    parser.add_argument("--seeds", type=int, default=3, help="how many of each architecture")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    options = parser.parse_args()
    for sizes, domain in zip(RANDOM, ("[0, 1]^16", "[-1000, 1000]^10"), strict=True):
        for seed in range(options.seeds):
            training = Training(
                data="none",
                architecture="-".join(map(str, sizes)) + ", ReLU",
                training=f"random: He-normal weights, biases uniform in +-1/sqrt(inputs), "
                f"seed {seed}",
                quality="none",
                domain=domain,
                script="python -m models.make_random",
            )
            model = matmul_model(*he_network(sizes, seed))
            save(model, f"random{sizes[0]}_s{seed}", training, options.out)


if __name__ == "__main__":
    main()
