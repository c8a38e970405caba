"""The problems of each table and figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from lipyomo.domains import Box, ball
from lipyomo.methods.crosslip import pairs
from lipyomo.network import FloatArray, Network
from lipyomo.problem import LipschitzProblem
from lipyomo.reproduce.records import Case
from lipyomo.reproduce.sources import (
    PENALTIES,
    architecture,
    plane_series,
    random_centers,
    random_network,
    shipped,
    synthetic_data,
    synthetic_network,
)

MARGIN = (1.0, -1.0)
"""Two classes: the functional f_0 - f_1."""

MakeNetwork = Callable[[], Network]


def _on_cube(make: MakeNetwork, norm: str) -> LipschitzProblem:
    network = make()
    cube = Box(0.0, 1.0, network.input_dim)
    return LipschitzProblem(network, cube, norm, functional=MARGIN)


def _on_ball(
    make: MakeNetwork, center: FloatArray, radius: float, shape: str, norm: str
) -> LipschitzProblem:
    domain = ball(center, radius, shape)
    return LipschitzProblem(make(), domain, norm, functional=MARGIN)


def mnist_balls(quick: bool, norm: str, radius: float, group: str) -> list[Case]:
    """Balls of the input norm at random centres, for the MNIST 1-against-7 networks."""
    nets, balls = (1, 2) if quick else (3, 20)
    shape = norm
    cases = []
    for seed in range(nets):
        for k, center in enumerate(random_centers(784, balls, seed)):
            make = partial(shipped, f"mnist17_s{seed}")
            build = partial(_on_ball, make, center, radius, shape, norm)
            cases.append(Case(group, f"{group}_net{seed}_ball{k}", build))
    return cases


def random_nets(quick: bool, norm: str) -> list[Case]:
    """Random networks [16, 16, 16, 2] over the unit cube."""
    count = 2 if quick else 20
    return [
        Case(
            "Random",
            f"random_{seed}",
            partial(_on_cube, partial(random_network, (16, 16, 16, 2), seed), norm),
        )
        for seed in range(count)
    ]


def synthetic_nets(quick: bool, norm: str, sizes: tuple[int, ...]) -> list[Case]:
    """Networks trained on the 10-dimensional synthetic data, over the unit cube.

    The quick form uses the shipped network [10, 20, 30, 20, 2], or a short training.
    """
    if quick and sizes == (10, 20, 30, 20, 2):
        makes: list[MakeNetwork] = [partial(shipped, "synthetic10")]
    else:
        count, epochs = (1, 100) if quick else (20, 500)
        makes = [partial(synthetic_network, sizes, seed, epochs) for seed in range(count)]
    return [
        Case("Synthetic", f"synthetic_{k}", partial(_on_cube, make, norm))
        for k, make in enumerate(makes)
    ]


def snapshots(quick: bool, norm: str) -> list[Case]:
    """Plane networks during training, by scheme; quick: the shipped snapshots only."""
    cases = []
    epochs = (25, 250, 1000) if quick else (0, *range(25, 1001, 25))
    for scheme in PENALTIES:
        for epoch in epochs:
            if quick:
                make: MakeNetwork = partial(shipped, f"plane/{scheme}_{epoch:04d}")
            else:
                make = partial(_snapshot, scheme, epochs, epoch)
            build = partial(_on_cube, make, norm)
            cases.append(Case(scheme, f"{scheme}_{epoch:04d}", build, float(epoch)))
    return cases


def _snapshot(scheme: str, epochs: tuple[int, ...], epoch: int) -> Network:
    return plane_series(scheme, epochs).network(epoch, name=f"{scheme}_{epoch:04d}")


def architectures(quick: bool) -> list[Case]:
    """Networks of growing width and depth."""
    widths = (5, 10, 20) if quick else (5, 10, 20, 40, 60, 80)
    depths = (1, 2, 3) if quick else (1, 2, 3, 4, 5, 6)
    series = [("width", c, (c,) * 3) for c in widths] + [("depth", c, (20,) * c) for c in depths]
    return [
        Case(kind, f"{kind}_{c:02d}", partial(_on_cube, partial(architecture, hidden), "linf"), c)
        for kind, c, hidden in series
    ]


def histogram_nets(quick: bool) -> list[Case]:
    """Random networks [10, 10, 10, 1] over the cube of radius 1000, in both norms."""
    count = 40 if quick else 5000
    return [
        Case(norm, f"{norm}_{seed:04d}", partial(_far, seed, norm))
        for norm in ("linf", "l1")
        for seed in range(count)
    ]


def _far(seed: int, norm: str) -> LipschitzProblem:
    network = random_network((10, 10, 10, 1), seed)
    return LipschitzProblem(network, Box(-1000.0, 1000.0, 10), norm)


def many_classes(quick: bool) -> list[Case]:
    """Balls of radius 0.1 around data points of the 100-class network.

    The group says which norm: "pairs" for e_i - e_j alone, "cross(i)" for the norm of the paper.
    """
    network = partial(shipped, "leaders100")
    points = synthetic_data(8, 2000, 200, 100).points
    count = 2 if quick else 20
    chosen = np.random.default_rng(0).choice(len(points), count, replace=False)
    cases = []
    for k, row in enumerate(chosen):
        for group in ("pairs", "cross(i)"):
            build = partial(_around, network, points[row], group)
            cases.append(Case(group, f"point{k}_{group}", build, float(k)))
    return cases


def _around(make: MakeNetwork, point: FloatArray, group: str) -> LipschitzProblem:
    network = make()
    label = int(np.argmax(network.forward(point)))
    domain = ball(point, 0.1, clip=(0.0, 1.0))
    if group == "pairs":
        norm = pairs(label, network.output_dim)
        return LipschitzProblem(network, domain, "linf", output_norm=norm)
    return LipschitzProblem(network, domain, "linf", margin=label)
