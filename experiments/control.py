"""Closed loops of a plant and a neural policy: the constant of k steps, exact.

    python -m experiments control

The plant is a double integrator, sampled every half second: ``x+ = A x + B u`` with an acceleration
``|u| <= 1``.  A policy of 2-16-16-1 units (ReLU, tanh) imitates the linear-quadratic regulator, cut
off at one.  The state after k steps is one network (`lipyomo.networks.unroll`), and its constant on
the box tells how far two trajectories can have come apart after k steps.  Beside it: the k-th power
of one step's constant, which is what bounding the steps one by one gives, and the constant of the
loop that the policy was taught.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_are

import lipyomo
from experiments.training import fit
from experiments.training.loop import import_torch
from lipyomo import Box, LipschitzProblem, Network, networks

TICK = 0.5
A = np.array([[1.0, TICK], [0.0, 1.0]])
B = np.array([[TICK**2 / 2], [TICK]])
TRAINED, SIDE = 2.0, 0.5
"""Half widths of the boxes of states of which the policy has examples, and of which is asked."""

UNITS = ("relu", "tanh")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    units : str
        Kind of the policy's units.
    steps : int
    lower, upper : float
        The interval of the constant, from linf to linf.
    power : float
        The constant of one step to the power of the steps.
    nodes : int
    seconds : float
        Of CPU, all processes.
    """

    units: str
    steps: int
    lower: float
    upper: float
    power: float
    nodes: int
    seconds: float


def gain() -> np.ndarray:
    """The linear-quadratic regulator K for unit costs, shape (1, 2): ``u = -K x``."""
    P = solve_discrete_are(A, B, np.eye(2), np.eye(1))
    return np.asarray(np.linalg.solve(np.eye(1) + B.T @ P @ B, B.T @ P @ A))


def policy(units: str, epochs: int, width: int = 16) -> Network:
    """A network that imitates the regulator, cut off at one."""
    torch = import_torch()
    torch.manual_seed(0)
    kind = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[units]
    linear = torch.nn.Linear
    module = torch.nn.Sequential(
        linear(2, width), kind(), linear(width, width), kind(), linear(width, 1)
    )
    generator = torch.Generator().manual_seed(0)
    states = TRAINED * (2.0 * torch.rand((4096, 2), generator=generator) - 1.0)
    actions = (-states @ torch.tensor(gain().T, dtype=states.dtype)).clamp(-1.0, 1.0)
    loss = torch.nn.functional.mse_loss
    fit(module, states, actions, loss, generator, epochs=epochs, lr=3e-3, cosine=True)
    return lipyomo.from_torch(module, name=f"policy_{units}")


def rows(units: str, most: int, epochs: int, time_limit: float) -> list[Row]:
    """The table of one policy, for 1 to `most` steps."""
    controller = policy(units, epochs)
    box = Box(-SIDE, SIDE, 2)
    found: list[Row] = []
    for steps in range(1, most + 1):
        loop = networks.unroll((A, B), controller, steps)
        problem = LipschitzProblem(loop, box, output_norm="linf")
        began = time.process_time()
        result = lipyomo.solve(problem, time_limit=time_limit)
        seconds = time.process_time() - began
        power = (found[0].upper if found else result.upper) ** steps
        ends = result.lower, result.upper
        found.append(Row(units, steps, *ends, power, result.nodes or 0, seconds))
    return found


def taught(steps: int, grid: int = 400) -> float:
    """The constant of the loop with the regulator itself, on a grid of states (from below)."""
    side = np.linspace(-SIDE, SIDE, grid)
    x = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    jacobians = np.broadcast_to(np.eye(2), (len(x), 2, 2))
    K = gain()
    for _ in range(steps):
        inside = np.abs(x @ K.T) < 1.0
        jacobians = (A - B @ K * inside[:, :, None]) @ jacobians
        x = x @ A.T + np.clip(-x @ K.T, -1.0, 1.0) @ B.T
    return float(np.abs(jacobians).sum(axis=2).max())


def main(words: Sequence[str]) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m experiments control", description=__doc__)
    parser.add_argument("--steps", type=int, default=5, help="most steps (5)")
    parser.add_argument("--epochs", type=int, default=200, help="of the training (200)")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds a row (300)")
    options = parser.parse_args(words)
    print("| policy | k | constant | of one step, to the power k | taught | nodes | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for units in UNITS:
        for row in rows(units, options.steps, options.epochs, options.time_limit):
            exact = row.upper - row.lower <= 1e-6 * row.upper
            value = f"{row.lower:.6g}" if exact else f"[{row.lower:.5g}, {row.upper:.5g}]"
            print(
                f"| {row.units} | {row.steps} | {value} | {row.power:.4g} | "
                f"{taught(row.steps):.4g} | {row.nodes} | {row.seconds:.2f} |",
                flush=True,
            )
