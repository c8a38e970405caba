"""Trained networks of the size that people have, for ``python -m experiments scale``.

    python -m experiments networks --to FOLDER [--names m500 reg20 ...] [--epochs 5] [--seed 0]

Writes FOLDER/scale: an ONNX file and a centre (``.npy``) each, and ``values.json`` with the radii.
Classifiers: Adam 1e-3 on cross-entropy, batches of 128, on MNIST (folder ``--mnist``: ``train`` if
it is there, else the 10,000 test images) with a test image as centre.  The colour-image network has
the shape of the CNN for CIFAR-10 of Shi et al. (NeurIPS 2022), but is trained on made-up images
(blurred noise around one template a class): data that need no download.  Regressors: mean squared
error, cosine schedule, 4,000 points of ``sum_i sin(3 x_i) x_{i+1}`` on [-1, 1]^d, centre zero.
Needs the extra ``[torch]``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from experiments.mnist import has_mnist, read_mnist
from experiments.reference import SHARED
from experiments.training.loop import fit, import_torch

Images = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class Shape:
    """A chain of convolutions (4 x 4, stride 2, padding 1), then of dense layers, with ReLUs.

    Attributes
    ----------
    inputs : tuple of int
        Channels, height and width; or the number of inputs.
    channels : tuple of int
        Of the convolutions.
    dense : tuple of int
        Units of the dense layers, the outputs last.
    radii : tuple of float
    """

    inputs: tuple[int, ...]
    channels: tuple[int, ...]
    dense: tuple[int, ...]
    radii: tuple[float, ...] = (1.0 / 255.0, 8.0 / 255.0)

    @property
    def regressor(self) -> bool:
        """Whether it has one output."""
        return self.dense[-1] == 1


def _digits(*dense: int) -> Shape:
    return Shape((784,), (), dense)


SHAPES = {
    "m100x2": _digits(100, 100, 10),
    "m256x2": _digits(256, 256, 10),
    "m256x3": _digits(256, 256, 256, 10),
    "m500": _digits(500, 10),
    "m1024x2": _digits(1024, 1024, 10),
    "cnn_mnist": Shape((1, 28, 28), (16, 32), (100, 10)),
    "cnn_cifar": Shape((3, 32, 32), (16, 32), (100, 10), (1.0 / 255.0,)),
    "reg6": Shape((6,), (), (64, 64, 64, 1), (0.1, 0.3)),
    "reg20": Shape((20,), (), (128, 128, 1), (0.1, 0.3)),
}
"""The networks by name."""


def module_of(shape: Shape, seed: int) -> Any:
    """The untrained PyTorch module."""
    torch = import_torch()
    torch.manual_seed(seed)
    parts: list[Any] = []
    size = shape.inputs
    for channels in shape.channels:
        parts += [torch.nn.Conv2d(size[0], channels, 4, stride=2, padding=1), torch.nn.ReLU()]
        size = (channels, size[1] // 2, size[2] // 2)
    if shape.channels:
        parts.append(torch.nn.Flatten())
    width = int(np.prod(size))
    for units in shape.dense:
        parts += [torch.nn.Linear(width, units), torch.nn.ReLU()]
        width = units
    return torch.nn.Sequential(*parts[:-1])


def made_up_images(count: int, seed: int) -> Images:
    """Colour images of ten classes: a smooth template each, with smooth noise."""
    rng = np.random.default_rng(seed)
    coarse = np.random.default_rng(0).uniform(0.2, 0.8, (10, 3, 8, 8))
    classes = rng.integers(0, 10, count)
    small = np.clip(coarse[classes] + 0.15 * rng.standard_normal((count, 3, 8, 8)), 0.0, 1.0)
    return np.kron(small, np.ones((4, 4))).astype(np.float32), classes


def train(shape: Shape, images: Images, epochs: int, seed: int) -> Any:
    """The trained module; `images` are left aside by regressors."""
    torch = import_torch()
    module = module_of(shape, seed)
    generator = torch.Generator().manual_seed(seed)
    if shape.regressor:
        points = np.random.default_rng(seed).uniform(-1.0, 1.0, (4000, shape.inputs[0]))
        values = (np.sin(3.0 * points[:, :-1]) * points[:, 1:]).sum(axis=1, keepdims=True)
        inputs, targets = points.astype(np.float32), torch.from_numpy(values.astype(np.float32))
        loss = torch.nn.functional.mse_loss
    else:
        inputs, targets = images[0].reshape(-1, *shape.inputs), torch.from_numpy(images[1])
        loss = torch.nn.functional.cross_entropy
    fit(
        module,
        torch.from_numpy(inputs),
        targets,
        loss,
        generator,
        epochs=10 * epochs if shape.regressor else epochs,
        cosine=shape.regressor,
    )
    return module


def as_onnx(module: Any, shape: Shape, name: str) -> onnx.ModelProto:
    """The module as an ONNX graph of convolutions, dense layers and ReLUs."""
    torch = import_torch()
    nodes, weights, signal = [], [], "x"
    for i, part in enumerate(module):
        inputs, out = [signal], f"h{i}"
        for kind, tensor in part.named_parameters():
            weights.append(numpy_helper.from_array(tensor.detach().numpy(), f"{kind}{i}"))
            inputs.append(f"{kind}{i}")
        if isinstance(part, torch.nn.Conv2d):
            node = helper.make_node("Conv", inputs, [out], strides=[2, 2], pads=[1, 1, 1, 1])
        elif isinstance(part, torch.nn.Linear):
            node = helper.make_node("Gemm", inputs, [out], transB=1)
        else:
            node = helper.make_node(type(part).__name__.replace("ReLU", "Relu"), inputs, [out])
        nodes.append(node)
        signal = out
    ends = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, *size])
        for end, size in (("x", shape.inputs), (signal, shape.dense[-1:]))
    ]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main(words: Sequence[str]) -> None:
    """Train and write networks."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m experiments networks")
    parser.add_argument("--to", type=Path, required=True, help="the folder")
    parser.add_argument("--names", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mnist", type=Path, default=SHARED / "data" / "mnist")
    asked = parser.parse_args(words)
    folder = asked.to / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in asked.names:
        shape = SHAPES[name]
        images, center = made_up_images(4000, asked.seed), np.zeros(shape.inputs)
        if shape.inputs[-1] in (784, 28):
            stem = "train" if has_mnist(asked.mnist, "train") else "t10k"
            images = read_mnist(asked.mnist, stem)
        if not shape.regressor:
            center = images[0][0].reshape(-1).astype(np.float64)
        module = train(shape, images, asked.epochs, asked.seed)
        onnx.save(as_onnx(module, shape, name), folder / f"{name}.onnx")
        np.save(folder / f"{name}.npy", center.reshape(-1))
        rows += [
            {"network": name, "radius": r, "norms": "linf -> linf", "best lower known": None}
            for r in shape.radii
        ]
        print(f"{name}: written to {folder}", flush=True)
    (folder / "values.json").write_text(json.dumps(rows, indent=1))
