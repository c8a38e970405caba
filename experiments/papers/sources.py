"""The networks of the paper's experiments: drawn, loaded from ``models/``, or trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from experiments import recipes
from experiments.mnist import ones_and_sevens
from experiments.training import TrainedNetwork, he_network
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.networks.network import Network


def models_folder() -> Path:
    """The folder ``models`` of the project: below the working directory, or beside the source.

    Raises
    ------
    ProblemError
        If it is in neither place.
    """
    places = (Path.cwd(), Path(__file__).resolve().parents[2])
    for place in places:
        if (place / "models" / "provenance.json").exists():
            return place / "models"
    raise ProblemError(
        f"the project's networks are not in '{places[0] / 'models'}'.  Remedy: run this in a clone "
        "of the project"
    )


@lru_cache(maxsize=8)
def shipped(name: str) -> Network:
    """A network of ``models/``, such as ``plane/ce_1000``."""
    from lipyomo.formats.onnx import load

    return load(models_folder() / f"{name}.onnx")


def random_network(sizes: Sequence[int], seed: int) -> Network:
    """A random network with He initialisation."""
    weights, biases = he_network(sizes, seed)
    return Network.from_arrays(weights, biases, name=f"random{sizes[0]}_s{seed}")


@lru_cache(maxsize=32)
def synthetic_network(sizes: tuple[int, ...], seed: int) -> Network:
    """A network of 10 inputs; ``synthetic10`` is the one of seed 0."""
    trained = recipes.synthetic(sizes).train(seed)
    return trained.network(name=f"synthetic{len(sizes)}_s{seed}")


@lru_cache(maxsize=8)
def plane_series(scheme: str, epochs: tuple[int, ...]) -> TrainedNetwork:
    """Snapshots of a plane network during training with one scheme."""
    recipe = recipes.PLANE[scheme]
    return replace(recipe, epochs=max(epochs)).train(snapshots=epochs)


@lru_cache(maxsize=32)
def architecture(hidden: tuple[int, ...]) -> Network:
    """A plane network of other widths and depths."""
    trained = recipes.architecture(hidden).train()
    return trained.network(name="plane_" + "-".join(map(str, hidden)))


def random_centers(dim: int, count: int, seed: int) -> FloatArray:
    """Uniform points of the unit cube, shape (count, dim)."""
    return np.random.default_rng(seed).random((count, dim))


@lru_cache(maxsize=32)
def digit_network(folder: Path, seed: int) -> Network:
    """A newly trained MNIST 1-against-7 network from the idx files in `folder`."""
    trained = recipes.train_digits(*ones_and_sevens(folder), seed=seed)
    return trained.network(name=f"mnist17_new{seed}")
