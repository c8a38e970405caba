"""Making the networks: trained by recipes of a few lines, or drawn at random, all with seeds.

Needs PyTorch.  Functions that are learned, in one place:

- tabular: which of ten random leaders is nearest (six inputs, three classes);
- digits: 8 x 8 pictures of strokes (vertical, horizontal, diagonal, cross) with noise;
- controller: a linear-quadratic regulator of a cart with a pole, cut off at one;
- surrogate: effectiveness of a counter-flow heat exchanger;
- field: a travelling wave u(t, x), as physics-informed networks learn;
- sequence: the mean of four readings of a sensor with a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

import lipyomo
from experiments.benchmark.instances import NETWORKS, Instance
from experiments.training import fit
from experiments.training.export import export
from lipyomo.base.arrays import FloatArray
from lipyomo.formats.onnx.export import to_onnx
from lipyomo.networks import difference

Data = tuple[FloatArray, np.ndarray]
Question = dict[str, Any]


@cache
def tabular() -> Data:
    """Points of the cube and the class of the nearest of ten leaders."""
    rng = np.random.default_rng(10)
    leaders, points = rng.random((10, 6)), rng.random((600, 6))
    nearest = np.argmin(((points[:, None] - leaders) ** 2).sum(axis=2), axis=1)
    return points, nearest % 3


@cache
def digits() -> Data:
    """Noisy strokes on 8 x 8 pixels, with values in [0, 1]."""
    rng = np.random.default_rng(11)
    pictures, classes = np.zeros((800, 8, 8)), rng.integers(4, size=800)
    place = np.arange(8)
    for picture, kind, at in zip(pictures, classes, rng.integers(1, 6, size=800), strict=True):
        if kind in (0, 3):
            picture[:, at : at + 2] = 1.0
        if kind in (1, 3):
            picture[at : at + 2] = 1.0
        if kind == 2:
            picture[place, (place + at) % 8] = 1.0
    noisy = np.clip(pictures + 0.2 * rng.standard_normal(pictures.shape), 0.0, 1.0)
    return noisy.reshape(800, 64), classes


@cache
def controller() -> Data:
    """States in [-1, 1]^4 and a saturated linear feedback."""
    states = np.random.default_rng(12).uniform(-1, 1, (4000, 4))
    return states, np.clip(states @ [0.6, 0.9, -2.4, -0.7], -1, 1)[:, None]


@cache
def surrogate() -> Data:
    """Heat exchangers: numbers of transfer units and capacity ratios, scaled to [-1, 1]."""
    unit = np.random.default_rng(13).uniform(-1, 1, (3000, 2))
    transfer, ratio = 2.6 + 2.4 * unit[:, 0], 0.475 + 0.475 * unit[:, 1]
    passed = np.exp(-transfer * (1 - ratio))
    return unit, ((1 - passed) / (1 - ratio * passed))[:, None]


@cache
def wave() -> Data:
    """u(t, x) = sin(pi (x - t / 2)) exp(-t / 2) on [0, 1] x [-1, 1]."""
    t, x = np.random.default_rng(14).uniform((0, -1), (1, 1), (3000, 2)).T
    return np.stack([t, x], axis=1), (np.sin(np.pi * (x - t / 2)) * np.exp(-t / 2))[:, None]


@cache
def sequence() -> Data:
    """Four readings in [-1, 1] and a soft threshold of their mean."""
    readings = np.random.default_rng(15).uniform(-1, 1, (3000, 4))
    return readings, np.tanh(3 * readings.mean(axis=1, keepdims=True))


def dense(*sizes: int, unit: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with units between them."""
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), unit()]
    return nn.Sequential(*parts[:-1])


class Residual(nn.Module):
    """x -> head(h), h <- h + B relu(A h) twice."""

    def __init__(self, inputs: int, width: int, outputs: int, unit: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.blocks = nn.ModuleList(dense(width, width, width, unit=unit) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to a batch."""
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


class Gated(nn.Module):
    """A gated unit: head(tanh(A x) * sigmoid(B x))."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.value, self.gate = nn.Linear(inputs, width), nn.Linear(inputs, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to a batch."""
        return self.head(torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x)))


class Recurrent(nn.Module):
    """Readings one after the other through a recurrent cell; the last state decides."""

    def __init__(self, kind: type[nn.RNNBase], states: int) -> None:
        super().__init__()
        self.cell, self.head = kind(1, states, batch_first=True), nn.Linear(states, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to a batch."""
        return self.head(self.cell(x[:, :, None])[0][:, -1])


class Attention(nn.Module):
    """Two tokens of two numbers, one head of attention, and a sum of tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(2, 2) for _ in range(3))
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to a batch."""
        tokens = x.reshape(-1, 2, 2)
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2) / 2**0.5
        mixed = torch.softmax(scores, dim=-1) @ self.value(tokens)
        return self.head(torch.tanh(mixed.reshape(-1, 4)))


def convolution(pool: bool = False, norm: bool = False) -> nn.Sequential:
    """8 x 8 pictures: a convolution of stride two, perhaps max-pooling, and two dense layers."""
    parts: list[nn.Module] = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, 3, stride=2, padding=1)]
    parts += [nn.BatchNorm2d(3)] * norm + [nn.ReLU()] + [nn.MaxPool2d(2)] * pool
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(12 if pool else 48, 12), nn.ReLU(),
                         nn.Linear(12, 4))  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """A network and how it is made, with its questions.

    Attributes
    ----------
    name, family, words : str
    make : callable
        The untrained module.
    data : callable or None
        What it learns; None for networks that are not trained.
    questions : tuple of dict
        Keywords of `Instance` that differ from the whole box in linf.
    """

    name: str
    family: str
    words: str
    make: Callable[[], nn.Module]
    data: Callable[[], Data] | None
    epochs: int = 60
    questions: tuple[Question, ...] = field(default_factory=lambda: ({},))


def recipes() -> Iterator[Recipe]:
    """All networks."""
    both: tuple[Question, ...] = ({}, {"norm": "l2", "output_norm": "l2"})
    margin: tuple[Question, ...] = ({"functional": (1.0, -1.0, 0.0)}, {"output_norm": "l1"})
    for seed in range(3):
        make = partial(dense, 6, 12, 12, 3)
        yield Recipe(f"tabular_{seed}", "tabular", "6-12-12-3 ReLU", make, tabular, 60, margin)
    leaky = partial(dense, 6, 12, 12, 3, unit=partial(nn.LeakyReLU, 0.1))
    yield Recipe("tabular_leaky", "tabular", "6-12-12-3 LeakyReLU", leaky, tabular)
    yield Recipe(
        "tabular_batchnorm", "tabular", "6-16-3 with batch normalisation",
        lambda: nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)),
        tabular, 60, both,
    )  # fmt: skip
    near = {"ball": 0.05, "functional": (1.0, -1.0, 0.0, 0.0)}
    for seed in range(2):
        make = partial(dense, 64, 16, 16, 4)
        yield Recipe(
            f"digits_{seed}", "digits", "64-16-16-4 ReLU", make, digits, 30,
            (near, near | {"ball": 0.02, "norm": "l2"}),
        )  # fmt: skip
    yield Recipe("digits_conv", "digits", "convolution 3, 48-12-4", convolution, digits, 30,
                 (near,))  # fmt: skip
    yield Recipe("digits_pool", "digits", "convolution 3, max-pooling, 12-12-4",
                 lambda: convolution(pool=True), digits, 30, (near,))  # fmt: skip
    yield Recipe("digits_batchnorm", "digits", "convolution 3 with batch normalisation, 48-12-4",
                 lambda: convolution(norm=True), digits, 30, (near,))  # fmt: skip
    for unit in (nn.ReLU, nn.Tanh, nn.SiLU, nn.GELU):
        title = unit.__name__
        yield Recipe(
            f"controller_{title.lower()}", "controller", f"4-16-16-1 {title}",
            partial(dense, 4, 16, 16, 1, unit=unit), controller, 40, both,
        )  # fmt: skip
    for unit in (nn.ReLU, nn.Tanh, nn.SiLU, nn.Softplus):
        title = unit.__name__
        yield Recipe(
            f"surrogate_{title.lower()}", "surrogate", f"2-16-16-1 {title}",
            partial(dense, 2, 16, 16, 1, unit=unit), surrogate, 60,
            ({}, {"lower": (0.0, -1.0)}),
        )  # fmt: skip
    for depth in (2, 4):
        yield Recipe(
            f"wave_{depth}", "field", f"2-{'-'.join(['16'] * depth)}-1 tanh",
            partial(dense, 2, *[16] * depth, 1, unit=nn.Tanh), wave, 80,
            ({}, {"norm": "l2"}),
        )  # fmt: skip
    for unit in (nn.ReLU, nn.Tanh):
        title = unit.__name__
        yield Recipe(
            f"residual_{title.lower()}", "residual", f"6-10, two residual blocks, {title}",
            partial(Residual, 6, 10, 3, unit), tabular, 40, both,
        )  # fmt: skip
    yield Recipe("mixed", "mixed", "4-12 tanh-12 ReLU-1",
                 lambda: nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.ReLU(),
                                       nn.Linear(12, 1)), controller, 40, both)  # fmt: skip
    yield Recipe("gated", "products", "2-8-1 gated tanh", lambda: Gated(2, 8), surrogate)
    yield Recipe("rnn", "products", "4 steps of a tanh cell with 3 states",
                 lambda: Recurrent(nn.RNN, 3), sequence)  # fmt: skip
    yield Recipe("gru", "products", "4 steps of a GRU with 2 states",
                 lambda: Recurrent(nn.GRU, 2), sequence)  # fmt: skip
    yield Recipe("lstm", "products", "4 steps of an LSTM with 2 states",
                 lambda: Recurrent(nn.LSTM, 2), sequence)  # fmt: skip
    yield Recipe("attention", "products", "2 tokens of 2, one head", Attention, controller)
    for inputs, width, seed in ((4, 12, 0), (6, 12, 0), (8, 12, 0), (10, 12, 1)):
        yield Recipe(
            f"random_{inputs}_{width}_{seed}", "random", f"{inputs}-{width}-{width}-1 ReLU",
            partial(dense, inputs, width, width, 1), None, 0,
            ({}, {"norm": "l1"}, {"norm": "l2"}),
        )  # fmt: skip


def build(recipe: Recipe) -> onnx.ModelProto:
    """The trained network as an ONNX file's content."""
    torch.manual_seed(sum(map(ord, recipe.name)))
    module = recipe.make()
    if recipe.data is not None:
        x, y = recipe.data()
        labels = np.issubdtype(y.dtype, np.integer)
        fit(
            module,
            torch.tensor(x, dtype=torch.float32),
            torch.tensor(y, dtype=torch.int64 if labels else torch.float32),
            nn.functional.cross_entropy if labels else nn.functional.mse_loss,
            torch.Generator().manual_seed(0),
            epochs=recipe.epochs,
            lr=5e-3,
            batch_size=64,
            cosine=True,
        )
        inputs = x.shape[1]
    else:
        inputs = next(p for p in module.modules() if isinstance(p, nn.Linear)).in_features
    return export(module, (inputs,))


def box_of(recipe: Recipe) -> tuple[FloatArray, FloatArray]:
    """Where the data are; [-1, 1] in every input for networks that are not trained."""
    if recipe.data is None:
        inputs = int(recipe.words.split("-")[0])
        return -np.ones(inputs), np.ones(inputs)
    x, _ = recipe.data()
    return np.round(x.min(axis=0), 0), np.round(x.max(axis=0), 0)


def instances_of(recipe: Recipe) -> Iterator[Instance]:
    """The questions that are asked of a network."""
    low, high = box_of(recipe)
    for asked in recipe.questions:
        question = {"norm": "linf", "output_norm": "linf", "functional": None, **asked}
        lower, upper = np.array(question.pop("lower", low), dtype=float), high
        radius = question.pop("ball", None)
        if radius is not None:
            assert recipe.data is not None
            centre = np.round(recipe.data()[0][0], 3)
            lower, upper = np.clip(centre - radius, 0, 1), np.clip(centre + radius, 0, 1)
        ends = tuple(np.round(lower, 6).tolist()), tuple(np.round(upper, 6).tolist())
        marks = [question["norm"], "c" if question["functional"] else question["output_norm"]]
        marks += [f"r{radius}"] * (radius is not None) + ["part"] * ("lower" in asked)
        made = recipe.words + (", trained" if recipe.data else ", as PyTorch initialises it")
        yield Instance(
            "_".join([recipe.name, *marks]), recipe.family, f"{recipe.name}.onnx", *ends,
            made=made, **question,
        )  # fmt: skip


def make() -> list[Instance]:
    """Write all networks and return their instances."""
    NETWORKS.mkdir(exist_ok=True)
    found: list[Instance] = []
    for recipe in recipes():
        onnx.save(build(recipe), NETWORKS / f"{recipe.name}.onnx")
        found += instances_of(recipe)
        print(recipe.name, flush=True)
    return [*found, *_rounded("tabular_0"), *_rounded("controller_tanh")]


def _rounded(name: str) -> Iterator[Instance]:
    """A network less itself with weights of eight bits."""
    network = lipyomo.load(NETWORKS / f"{name}.onnx")
    model = onnx.load(NETWORKS / f"{name}.onnx")
    for item in model.graph.initializer:
        array = onnx.numpy_helper.to_array(item)
        if array.ndim == 2:
            step = float(np.abs(array).max()) / 127
            rounded = (np.round(array / step) * step).astype(array.dtype)
            item.CopyFrom(onnx.numpy_helper.from_array(rounded, item.name))
    other = NETWORKS / f"{name}_int8.onnx"
    onnx.save(model, other)
    off = difference(network, lipyomo.load(other))
    onnx.save(to_onnx(off), NETWORKS / f"{name}_off.onnx")
    low, high = {"tabular_0": (0.0, 1.0)}.get(name, (-1.0, 1.0))
    ends = (low,) * network.input_dim, (high,) * network.input_dim
    made = f"{name} less itself with weights of eight bits"
    yield Instance(
        f"{name}_off_linf_linf", "quantised", f"{name}_off.onnx", *ends, "linf", "linf", None, made
    )
