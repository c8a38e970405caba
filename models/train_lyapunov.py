"""Train Lyapunov functions of two plants; not in the papers.

    python -m models.train_lyapunov

Each plant is a field ``x' = g(x)`` with its controller inside, in round numbers:

- ``pendulum_plant``: upright, with friction and a torque that a tanh limits to 2;
- ``vanderpol_plant``: van der Pol's oscillator backwards in time, which falls to the origin.

``pendulum`` and ``vanderpol``, 2-16-16-1 with tanh units, are near the quadratic form of their
plant's linearisation and are trained to fall along it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import solve_continuous_lyapunov
from torch import nn

from experiments.training.export import export
from lipyomo import Network
from lipyomo.formats.onnx import to_onnx
from lipyomo.networks import jacobian, residual
from models.provenance import HERE, Training, save


@dataclass(frozen=True)
class Plant:
    """A field with its controller.

    Attributes
    ----------
    name, about : str
    field : callable
        Of states ``x[0]``, ...: derivatives, by numpy's functions.
    reach : tuple of float
        Half widths of the box of states.
    sizes : tuple of int
        Hidden layers of V.
    steps : int
        Of the training.
    """

    name: str
    about: str
    field: Callable[[Any], list[Any]]
    reach: tuple[float, ...]
    sizes: tuple[int, ...]
    steps: int

    def network(self) -> Network:
        """The field as a network."""
        state = Network.from_arrays([np.eye(len(self.reach))])
        return residual(state, lambda u, x: self.field(x), self.name)


def pendulum(x: Any) -> list[Any]:
    """Angle from upright and speed: gravity 1, friction, and a torque below 2."""
    return [x[1], np.sin(x[0]) - 0.5 * x[1] - 2.0 * np.tanh(2.0 * x[0] + x[1])]


def vanderpol(x: Any) -> list[Any]:
    """Backwards in time."""
    return [-1.0 * x[1], x[0] - x[1] + x[0] ** 2 * x[1]]


PLANTS = (
    Plant("pendulum", "a pendulum with limited torque", pendulum, (1.0, 1.0), (16, 16), 600),
    Plant("vanderpol", "van der Pol's oscillator", vanderpol, (1.0, 1.0), (16, 16), 600),
)


def quadratic(plant: Plant) -> np.ndarray:
    """P of the linearisation: ``A^T P + P A = -1``, scaled to an eigenvalue of 1."""
    A = jacobian(plant.network()).forward(np.zeros(len(plant.reach)))
    P = solve_continuous_lyapunov(A.reshape([len(plant.reach)] * 2).T, -np.eye(len(plant.reach)))
    return np.asarray(P / np.linalg.eigvalsh(P)[-1])


def train(plant: Plant, seed: int) -> tuple[nn.Sequential, float]:
    """V, and the share of fresh points of the box (V > 1/10 of its size) at which it falls."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in zip((len(plant.reach), *plant.sizes), plant.sizes, strict=False):
        layers += [nn.Linear(a, b), nn.Tanh()]
    module = nn.Sequential(*layers, nn.Linear(plant.sizes[-1], 1, bias=False)).double()
    P, field, reach = torch.tensor(quadratic(plant)), plant.network(), torch.tensor(plant.reach)

    def batch(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = (2.0 * torch.rand((count, len(plant.reach)), dtype=torch.float64) - 1.0) * reach
        return x, torch.tensor(field.forward(x.numpy())), (x @ P * x).sum(dim=1)

    def both(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.requires_grad_(True)
        V = (module(x) - module(torch.zeros_like(x[:1])))[:, 0]
        (slope,) = torch.autograd.grad(V.sum(), x, create_graph=True)
        return V, (slope * g).sum(dim=1)

    adam = torch.optim.Adam(module.parameters(), lr=1e-2)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(adam, plant.steps)
    for _ in range(plant.steps):
        x, g, form = batch(256)
        V, speed = both(x, g)
        size = form / form.mean()
        loss = (V - form).square().mean() / form.square().mean()
        loss = loss + torch.relu(speed / form.mean() + 0.05 * size).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        slower.step()
    x, g, form = batch(20_000)
    V, speed = both(x, g)
    some = form > 0.1 * form.max()
    return module, float((speed[some] < 0).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Train Lyapunov functions.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights and points (0)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for plant in PLANTS:
        box = " x ".join(f"[-{r:g}, {r:g}]" for r in plant.reach)
        module, share = train(plant, options.seed)
        d, script = len(plant.reach), "python -m models.train_lyapunov"
        made = Training(
            data=f"states of {plant.about} in {box}, drawn anew at each step",
            architecture=f"{d}-{'-'.join(map(str, plant.sizes))}-1, tanh",
            training="distance to the quadratic form of the linearisation, and a hinge of the "
            f"derivative along the plant; Adam 1e-2 with cosine decay, {plant.steps} steps of 256 "
            f"points, seed {options.seed}",
            quality=f"falls at {share:.2%} of fresh points with a form above a tenth of its most",
            script=script,
            domain=box,
        )
        save(export(module.float(), (d,)), plant.name, made, options.out)
        fixed = Training(
            data="no data: a formula",
            architecture=f"{plant.about}: {d} states and their derivatives",
            training="none",
            quality="the formula in float32",
            script=script,
            domain=box,
        )
        save(to_onnx(plant.network()), f"{plant.name}_plant", fixed, options.out)


if __name__ == "__main__":
    main()
