"""Train iris classifiers [4, 8, 8, 3] on measurements in centimetres.

    python -m models.train_iris

One network, two files: ``iris`` standardises its inputs by Sub and Div nodes, as PyTorch writes
them; ``iris_scaler`` by an ``ai.onnx.ml`` Scaler before MatMul nodes, as scikit-learn's converter
writes them. Every fifth flower is held out. The outputs are logits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper
from sklearn.datasets import load_iris

from experiments.training import TrainedNetwork, train_classifier
from experiments.training.export import export
from models.dense import Standardise, accuracy, dense_module
from models.make_random import matmul_model
from models.provenance import HERE, Training, save

SIZES = (4, 8, 8, 3)


def scaler_model(trained: TrainedNetwork, shift: np.ndarray, scale: np.ndarray) -> onnx.ModelProto:
    """Write the network behind an ``ai.onnx.ml`` Scaler, ``(x - shift) * (1 / scale)``."""
    model = matmul_model(
        [weight.astype(np.float64) for weight in trained.weights],
        [bias.astype(np.float64) for bias in trained.biases],
    )
    first = model.graph.node[0]
    first.input[0] = "standardised"
    scaler = helper.make_node(
        "Scaler",
        ["input"],
        ["standardised"],
        domain="ai.onnx.ml",
        offset=[float(value) for value in shift],
        scale=[float(1.0 / value) for value in scale],
    )
    model.graph.node.insert(0, scaler)
    model.graph.name = "iris"
    model.opset_import.append(helper.make_operatorsetid("ai.onnx.ml", 1))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Train iris classifiers.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    out = parser.parse_args().out

    samples, labels = load_iris(return_X_y=True)
    held = np.arange(len(samples)) % 5 == 0
    shift, scale = samples[~held].mean(axis=0), samples[~held].std(axis=0)
    trained = train_classifier(
        SIZES, (samples[~held] - shift) / scale, labels[~held], epochs=200, batch_size=16, seed=0
    )
    module = torch.nn.Sequential(Standardise(shift, scale), *dense_module(trained))
    seen = accuracy(module, samples[~held], labels[~held])
    right = accuracy(module, samples[held], labels[held])
    box = ", ".join(
        f"[{low:g}, {high:g}]"
        for low, high in zip(samples.min(axis=0), samples.max(axis=0), strict=True)
    )
    training = Training(
        data="iris (R. A. Fisher, by way of scikit-learn): 120 flowers to train, 30 held out",
        architecture="4-8-8-3, ReLU, behind a standardisation",
        training="cross-entropy, Adam 1e-3, 200 epochs, batches of 16, seed 0",
        quality=f"{seen:.2%} of the training flowers, {right:.2%} held out",
        domain=f"{box} cm",
        script="python -m models.train_iris",
        accuracy=right,
    )
    save(export(module, (4,)), "iris", training, out)
    save(scaler_model(trained, shift, scale), "iris_scaler", training, out)


if __name__ == "__main__":
    main()
