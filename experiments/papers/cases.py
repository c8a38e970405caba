"""The problems of each table and figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments import recipes
from experiments.papers.records import Case
from experiments.papers.sources import (
    architecture,
    digit_network,
    plane_series,
    random_centers,
    random_network,
    shipped,
    synthetic_network,
)
from lipyomo.base.arrays import FloatArray
from lipyomo.methods.crosslip import pairs
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box, ball
from lipyomo.problems.problem import LipschitzProblem

MARGIN = (1.0, -1.0)
"""Two classes: the functional f_0 - f_1."""

MakeNetwork = Callable[[], Network]


@dataclass(frozen=True)
class Scope:
    """How much of an experiment is run.

    Attributes
    ----------
    quick : bool
        A smoke run, on shipped and random networks where there are any.
    trials : int, optional
        Repetitions of a table's columns or networks of a histogram; by default 1 (quick) or 3, and
        20 or 200 networks.
    mnist : Path, optional
        Folder of MNIST's idx files: train new networks instead of taking the shipped ones.
    """

    quick: bool = False
    trials: int | None = None
    mnist: Path | None = None

    def count(self, quick: int, full: int) -> int:
        """Number of repetitions, with these defaults."""
        return self.trials or (quick if self.quick else full)


def _on_cube(make: MakeNetwork, norm: str) -> LipschitzProblem:
    network = make()
    cube = Box(0.0, 1.0, network.input_dim)
    return LipschitzProblem(network, cube, norm, functional=MARGIN)


def _on_ball(make: MakeNetwork, center: FloatArray, radius: float, norm: str) -> LipschitzProblem:
    domain = ball(center, radius)
    return LipschitzProblem(make(), domain, norm, functional=MARGIN)


def mnist_balls(scope: Scope, norm: str, radius: float, group: str) -> list[Case]:
    """Balls at random centres, for MNIST 1-against-7 networks in turn.

    They are linf balls for the l1 norm, too: l1 balls of these radii are so small that sampling
    finds the exact constant, which is not what the paper reports.
    """
    cases = []
    for k, center in enumerate(random_centers(784, scope.count(1, 3), 0)):
        if scope.mnist is None:
            make, name = partial(shipped, f"mnist17_s{k % 3}"), f"{group}_{k}"
        else:
            make, name = partial(digit_network, scope.mnist, k), f"{group}_new{k}"
        cases.append(Case(group, name, partial(_on_ball, make, center, radius, norm)))
    return cases


def random_nets(scope: Scope, norm: str) -> list[Case]:
    """Random networks [16, 16, 16, 2] over the unit cube."""
    makes = [partial(random_network, (16, 16, 16, 2), seed) for seed in range(scope.count(1, 3))]
    return [
        Case("Random", f"random_{seed}", partial(_on_cube, make, norm))
        for seed, make in enumerate(makes)
    ]


def synthetic_nets(scope: Scope, norm: str, sizes: tuple[int, ...]) -> list[Case]:
    """Networks trained on the 10-dimensional synthetic data, over the unit cube.

    The first [10, 20, 30, 20, 2] is the shipped one; a quick run has no other.
    """
    if scope.quick:
        makes: list[MakeNetwork] = [partial(shipped, "synthetic10")]
    else:
        makes = [partial(synthetic_network, sizes, seed) for seed in range(scope.count(1, 3))]
        if sizes == (10, 20, 30, 20, 2):
            makes[0] = partial(shipped, "synthetic10")
    return [
        Case("Synthetic", f"synthetic_{k}", partial(_on_cube, make, norm))
        for k, make in enumerate(makes)
    ]


def snapshots(scope: Scope, norm: str) -> list[Case]:
    """Plane networks during training, by scheme; quick: the shipped snapshots only."""
    cases = []
    epochs = (25, 250, 1000) if scope.quick else tuple(range(25, 1001, 25))
    for scheme in recipes.PLANE:
        for epoch in epochs:
            if scope.quick:
                make: MakeNetwork = partial(shipped, f"plane/{scheme}_{epoch:04d}")
            else:
                make = partial(_snapshot, scheme, epochs, epoch)
            build = partial(_on_cube, make, norm)
            cases.append(Case(scheme, f"{scheme}_{epoch:04d}", build, float(epoch)))
    return cases


def _snapshot(scheme: str, epochs: tuple[int, ...], epoch: int) -> Network:
    return plane_series(scheme, epochs).network(epoch, name=f"{scheme}_{epoch:04d}")


def architectures(scope: Scope) -> list[Case]:
    """Networks of growing width and depth; in a quick run random ones of the same sizes."""
    widths = (5, 10, 20) if scope.quick else recipes.WIDTHS
    depths = (1, 2, 3) if scope.quick else recipes.DEPTHS
    series = [("width", c, (c,) * 3) for c in widths] + [("depth", c, (20,) * c) for c in depths]
    cases = []
    for kind, c, hidden in series:
        make: MakeNetwork = partial(architecture, hidden)
        if scope.quick:
            make = partial(random_network, (2, *hidden, 2), 0)
        cases.append(Case(kind, f"{kind}_{c:02d}", partial(_on_cube, make, "linf"), c))
    return cases


def histogram_nets(scope: Scope) -> list[Case]:
    """Random networks [10, 10, 10, 1] over the cube of radius 1000, in both norms."""
    count = scope.count(20, 200)
    return [
        Case(norm, f"{norm}_{seed:04d}", partial(_far, seed, norm))
        for norm in ("linf", "l1")
        for seed in range(count)
    ]


def _far(seed: int, norm: str) -> LipschitzProblem:
    network = random_network((10, 10, 10, 1), seed)
    return LipschitzProblem(network, Box(-1000.0, 1000.0, 10), norm)


def many_classes(scope: Scope) -> list[Case]:
    """Balls of radius 0.1 around data points of the 100-class network.

    The group says which norm: "pairs" for e_i - e_j alone, "cross(i)" for the norm of the paper.
    """
    data = recipes.MANY_CLASSES.data()
    order = np.random.default_rng(0).permutation(len(data.points))
    cases = []
    for k, row in enumerate(order[: scope.count(1, 3)]):
        for group in ("pairs", "cross(i)"):
            build = partial(_around, data.points[row], int(data.labels[row]), group)
            cases.append(Case(group, f"point{k}_{group}", build, float(k)))
    return cases


def _around(point: FloatArray, label: int, group: str) -> LipschitzProblem:
    network, domain = shipped("leaders100"), ball(point, 0.1)
    if group == "pairs":
        norm = pairs(label, network.output_dim)
        return LipschitzProblem(network, domain, "linf", output_norm=norm)
    return LipschitzProblem(network, domain, "linf", margin=label)
