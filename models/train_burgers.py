"""Train a network that solves Burgers' equation; not in the papers.

    python -m models.train_burgers

``burgers``: 2-20-20-20-20-20-20-20-20-1 with tanh units, of t and x, trained on

    u_t + u u_x = (0.01 / pi) u_xx,    u(0, x) = -sin(pi x),    u(t, -1) = u(t, 1) = 0,

for 0 <= t <= 1 and -1 <= x <= 1: a shock becomes steep near x = 0.  It is the example of
M. Raissi, P. Perdikaris and G. E. Karniadakis, Physics-informed neural networks (2019), in the
architecture of that paper.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from experiments.training.export import export
from models.provenance import HERE, Training, save

VISCOSITY = 0.01 / np.pi
DEPTH, WIDTH = 8, 20


def module() -> nn.Sequential:
    """The network before training, in double precision."""
    layers: list[nn.Module] = []
    for inputs in (2, *[WIDTH] * (DEPTH - 1)):
        layers += [nn.Linear(inputs, WIDTH), nn.Tanh()]
    made = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).double()
    for layer in made[::2]:
        nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    return made


def residual(network: nn.Sequential, points: torch.Tensor) -> torch.Tensor:
    """``u_t + u u_x - nu u_xx`` at points (n, 2), by derivatives that go forwards."""
    first = network[0]
    z, z_t, z_x = first(points), first.weight[:, 0], first.weight[:, 1]
    z_xx = torch.zeros_like(z)
    for layer in network[2::2]:
        h = torch.tanh(z)
        slope = 1.0 - h * h
        h_t, h_x = slope * z_t, slope * z_x
        h_xx = slope * (z_xx - 2.0 * h * z_x * z_x)
        z, z_t, z_x, z_xx = layer(h), *(part @ layer.weight.T for part in (h_t, h_x, h_xx))
    return z_t + z * z_x - VISCOSITY * z_xx


def loss(network: nn.Sequential, inside: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """Mean squares of the residual, and of what is off at the beginning and at both ends."""
    t, x = 0.5 * (edge + 1.0), edge
    start = network(torch.cat([0.0 * x, x], dim=1)) + torch.sin(np.pi * x)
    ends = [network(torch.cat([t, torch.full_like(t, end)], dim=1)) for end in (-1.0, 1.0)]
    squares = (residual(network, inside), start, *ends)
    return sum((part.square().mean() for part in squares), torch.zeros(()))


def train(seed: int, steps: int) -> nn.Sequential:
    """Adam first, then L-BFGS, on points that are drawn again now and then."""
    torch.manual_seed(seed)
    network = module()

    def points(count: int) -> torch.Tensor:
        drawn = torch.rand((count, 2), dtype=torch.float64)
        drawn[:, 1] = 2.0 * drawn[:, 1] - 1.0
        drawn[: count // 5, 1] *= 0.1  # around the shock
        return drawn

    edge = torch.linspace(-1.0, 1.0, 101, dtype=torch.float64)[:, None]
    adam = torch.optim.Adam(network.parameters(), lr=2e-3)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        adam.zero_grad()
        loss(network, points(500), edge).backward()
        adam.step()
        slower.step()
    for _ in range(4):
        inside = points(2000)
        lbfgs = torch.optim.LBFGS(
            network.parameters(),
            max_iter=steps // 8,
            history_size=50,
            line_search_fn="strong_wolfe",
        )
        lbfgs.step(partial(_value, network, lbfgs, inside, edge))
    return network


def _value(
    network: nn.Sequential, lbfgs: torch.optim.LBFGS, inside: torch.Tensor, edge: torch.Tensor
) -> torch.Tensor:
    """The loss, with its gradient in the parameters."""
    lbfgs.zero_grad()
    found = loss(network, inside, edge)
    found.backward()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network on Burgers' equation.")
    parser.add_argument("--out", type=Path, default=HERE, help="where to write")
    parser.add_argument("--seed", type=int, default=0, help="of weights and points (0)")
    parser.add_argument("--steps", type=int, default=4000, help="of Adam (4000)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = train(options.seed, options.steps).float()
    fresh = torch.rand((100_000, 2)) * torch.tensor([1.0, 2.0]) - torch.tensor([0.0, 1.0])
    with torch.no_grad():
        off = residual(network, fresh).abs()
        x = torch.linspace(-1.0, 1.0, 1001)[:, None]
        start = (network(torch.cat([0.0 * x, x], dim=1)) + torch.sin(np.pi * x)).abs().max()
    training = Training(
        data="Burgers' equation with viscosity 0.01/pi on [0, 1] x [-1, 1], u(0, x) = -sin(pi x)",
        architecture=f"2-{'-'.join([str(WIDTH)] * DEPTH)}-1, tanh",
        training=f"mean squares of residual, start and ends; Adam 2e-3 with cosine decay, "
        f"{options.steps} steps of 500 points, then 4 times L-BFGS, {options.steps // 8} steps of "
        f"2000 points, seed {options.seed}",
        quality=f"residual: root mean square {off.square().mean().sqrt():.4f}, largest "
        f"{off.max():.3f} on 100000 fresh points; start off by {start:.4f}",
        domain="t in [0, 1], x in [-1, 1]",
        script="python -m models.train_burgers",
    )
    save(export(network, (2,)), "burgers", training, options.out)


if __name__ == "__main__":
    main()
