"""Lyapunov functions of three plants; not in the papers.

    python -m models.train_lyapunov

Each plant is a field ``x' = g(x)`` with its controller inside, in round numbers:

- ``pendulum_plant``: upright, with friction and a torque that a tanh limits to 2;
- ``vanderpol_plant``: van der Pol's oscillator backwards in time, which falls to the origin.

``pendulum`` and ``vanderpol``, 2-16-16-1 with tanh units, are near the quadratic form of their
plant's linearisation and are trained to fall along it.

- ``cartpole_plant``: a pole on a cart, which a force holds up that a tanh limits to 10, of states
  z: x = S z are the cart's position and speed, the pole's angle and its speed.

``cartpole`` is not trained: ``V = |z|**2`` is the quadratic form of the regulator for unit costs,
by whose Cholesky factor S (`SCALES`, rounded) was made.
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
from lipyomo import Layer, Network
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


SCALES = (
    (1.22, -1.16, 0.09, 0.01),
    (0.0, 1.3, -0.95, -0.26),
    (0.0, 0.0, 0.25, -1.16),
    (0.0, 0.0, 0.0, 5.5),
)
"""S of the pole, whose columns are states at which V is 1: the solution P of its Riccati equation,
as ``P = c (S S.T)**-1``, rounded; c is as large as V was found to fall where it is 1."""

GAINS = (1.0, 2.23, 30.28, 6.69)
"""Of the force: the linear-quadratic regulator of the pole for unit costs."""


def cartpole(z: Any) -> list[Any]:
    """A cart of 1 kg under a point mass of 0.1 kg on a rod of 0.5 m, without friction."""
    mass, length, gravity = 0.1, 0.5, 9.8
    S = np.array(SCALES)
    back = np.linalg.inv(S)
    _, speed, angle, turn = x = [sum(S[i, j] * z[j] for j in range(i, 4)) for i in range(4)]
    force = 10.0 * np.tanh(0.1 * sum(gain * one for gain, one in zip(GAINS, x, strict=True)))
    sine, cosine = np.sin(angle), np.cos(angle)
    push = force + mass * sine * (length * turn * turn - gravity * cosine)
    rate = push / (1.0 + mass * sine * sine)
    g = [speed, rate, turn, (gravity * sine - rate * cosine) / length]
    return [sum(back[i, j] * g[j] for j in range(i, 4)) for i in range(4)]


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
        fixed = formula(f"{plant.about}: {d} states and their derivatives", box)
        save(to_onnx(plant.network()), f"{plant.name}_plant", fixed, options.out)
    save_cartpole(options.out)


def save_cartpole(out: Path) -> None:
    """The pole's V and its field."""
    box, state = "[-1, 1]^4", Network.from_arrays([np.eye(4)])
    form = residual(state, lambda u, z: sum(z[k] ** 2 for k in range(4)), "cartpole")
    field = _rounded(residual(state, lambda u, z: cartpole(z), "cartpole_plant"))
    about = "the square of the distance from 0: 4 states"
    save(to_onnx(form), "cartpole", formula(about, box), out)
    about = "a pole on a cart: 4 states in the scales of V, and their derivatives"
    save(to_onnx(field), "cartpole_plant", formula(about, box), out)


def _rounded(network: Network) -> Network:
    """The same with float32 weights."""
    layers = [
        Layer(
            layer.dense_weight.astype(np.float32),
            layer.bias.astype(np.float32),
            layer.left,
            layer.right,
            layer.curves,
        )
        for layer in network.layers
    ]
    return Network(layers, network.name)


def formula(architecture: str, box: str) -> Training:
    """The record of a network that is no result of training."""
    return Training(
        data="no data: a formula",
        architecture=architecture,
        training="none",
        quality="the formula in float32",
        script="python -m models.train_lyapunov",
        domain=box,
    )


if __name__ == "__main__":
    main()
