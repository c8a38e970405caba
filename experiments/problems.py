"""Networks and problems that several experiments share: drawn, of ``models/``, and of other groups.

What is a problem is built when it is needed, from the folder of the networks of other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import lipyomo
from experiments.reference import ROOT, load_reference
from lipyomo import AllSpace, Box, LipschitzProblem, Network, ball

DIFFERENCE = np.array([1.0, -1.0])
"""Two classes: the functional f_0 - f_1."""

Build = Callable[[Path], LipschitzProblem]


def he(sizes: Sequence[int], seed: int) -> Network:
    """A random network: He-normal weights, biases uniform in +-1/sqrt(inputs)."""
    rng = np.random.default_rng(seed)
    shapes = list(pairwise(sizes))
    weights = [rng.normal(0, np.sqrt(2 / k), (n, k)) for k, n in shapes]
    biases = [rng.uniform(-1, 1, n) / np.sqrt(k) for k, n in shapes]
    return Network.from_arrays(weights, biases)


def gaussian(
    sizes: Sequence[int], seed: int, bias: float = 0.1, activation: str = "relu"
) -> Network:
    """A random network: He-normal weights, normal biases of size `bias`."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, np.sqrt(2.0 / k), (n, k)) for k, n in pairwise(sizes)]
    biases = [rng.normal(0.0, bias, n) for n in sizes[1:]]
    name = "-".join(map(str, sizes))
    return Network.from_arrays(weights, biases, name=name, activation=activation)


def scalar(name: str) -> Build:
    """A reference network with its box and functional."""

    def build(shared: Path) -> LipschitzProblem:
        known = load_reference(shared / "reference" / f"{name}.npz")
        return LipschitzProblem(known.network, known.box, functional=known.functional)

    return build


def normed(name: str, norm: str, everywhere: bool = False) -> Build:
    """A reference network in one norm at both ends."""

    def build(shared: Path) -> LipschitzProblem:
        known = load_reference(shared / "reference" / f"{name}.npz")
        domain = AllSpace(known.network.input_dim) if everywhere else known.box
        return LipschitzProblem(known.network, domain, norm, norm)

    return build


def random(seed: int) -> Build:
    """A random [16, 16, 16, 2] network on the unit cube."""
    return lambda _: LipschitzProblem(
        he((16, 16, 16, 2), seed), Box(0, 1, 16), functional=DIFFERENCE
    )


def own(name: str, inputs: int, functional: bool = True) -> Build:
    """A network of ``models/`` on the unit cube."""

    def build(_: Path) -> LipschitzProblem:
        network = lipyomo.load(ROOT / "models" / name)
        chosen = DIFFERENCE if functional else None
        return LipschitzProblem(network, Box(0, 1, inputs), functional=chosen)

    return build


def digit(k: int, norm: str, radius: float) -> Build:
    """A ball about an image of ``models/``."""

    def build(_: Path) -> LipschitzProblem:
        images = np.load(ROOT / "models" / "mnist17_images.npz")["images"].reshape(-1, 784)
        domain = ball(images[k].astype(np.float64), radius, norm, (0.0, 1.0))
        network = lipyomo.load(ROOT / "models" / "mnist17_s0.onnx")
        return LipschitzProblem(network, domain, norm, functional=DIFFERENCE)

    return build
