"""The MIP route beside the plain big-M form of the LipMIP paper, on small networks, with HiGHS.

    python -m experiments mip [--limit 25] [--only 0 3 7] [--untrained]

Ten random and twenty trained networks of 20 to 60 units.  "plain" is one model: big-Ms from
interval bounds, the adjoint encoding, no start, no cells, no probing; HiGHS is believed.  Ours
stands there twice: as it is, and without the check of the solver's claim by branch and bound, since
the plain form has none.  CPU seconds of this process, one thread; what is open at the limit counts
as the limit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyomo.environ as pyo

import lipyomo
from experiments.problems import gaussian
from experiments.training.train import train_regressor
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.blocks import LipschitzBlock
from lipyomo.solvers import SolverOptions, solve_model

SIZES = (
    (2, 10, 10, 1),
    (2, 16, 16, 2),
    (3, 12, 12, 12, 2),
    (3, 20, 20, 1),
    (4, 12, 12, 2),
    (4, 20, 1),
    (5, 15, 15, 1),
    (6, 10, 10, 10, 1),
    (8, 16, 16, 2),
    (10, 30, 20, 1),
)


TRAINED = (
    (2, 10, 10, 1),
    (2, 16, 16, 2),
    (2, 20, 20, 20, 1),
    (3, 12, 12, 12, 2),
    (3, 20, 20, 1),
    (3, 30, 1),
    (4, 12, 12, 2),
    (4, 20, 1),
    (4, 14, 14, 14, 1),
    (5, 15, 15, 1),
    (5, 20, 10, 3),
    (6, 10, 10, 10, 1),
    (6, 12, 12, 2),
    (2, 30, 15, 3),
    (3, 10, 10, 3),
    (4, 25, 15, 1),
    (6, 24, 1),
    (5, 10, 10, 10, 10, 1),
    (2, 40, 2),
    (3, 16, 16, 16, 3),
)
TASKS = {
    "waves": lambda x: np.sum(np.sin(3.0 * x) * np.roll(x, -1, axis=1), axis=1),
    "bowl": lambda x: 3.0 * np.exp(-2.0 * np.sum(x**2, axis=1)),
    "step": lambda x: np.tanh(4.0 * (x[:, 0] - x[:, 1] ** 2)),
    "dynamics": lambda x: x[:, 1] - 0.5 * np.sin(3.0 * x[:, 0]) + 0.3 * x[:, 0] * x[:, 1],
}
"""What networks are fitted to; further outputs are the same of the inputs in another order."""


def networks(trained: bool = True) -> Iterator[tuple[str, lipyomo.Network]]:
    """Names and networks: random ones, then trained ones, of four tasks and five seeds."""
    for seed, sizes in enumerate(SIZES):
        yield f"{'-'.join(map(str, sizes))} random", gaussian(sizes, seed)
    for k, sizes in enumerate(TRAINED if trained else ()):
        task = list(TASKS)[k % len(TASKS)]
        x = np.random.default_rng(1000 + k).uniform(-1.0, 1.0, (2000, sizes[0]))
        y = [TASKS[task](np.roll(x, j, axis=1)) for j in range(sizes[-1])]
        found = train_regressor(sizes, x, np.stack(y, axis=1), epochs=60, seed=k % 5)
        yield f"{'-'.join(map(str, sizes))} {task}", found.network()


def plain(network: lipyomo.Network, limit: float) -> tuple[float, float]:
    """The two ends that the plain form reaches."""
    model = pyo.ConcreteModel()
    model.block = LipschitzBlock()
    box = lipyomo.Box(-1, 1, network.input_dim)
    model.block.build_formulation(
        network, domain=box, encoding="adjoint", bounds="interval", output_norm="linf"
    )
    model.goal = pyo.Objective(expr=model.block.value, sense=pyo.maximize)
    found = solve_model(
        model, "highs", SolverOptions(time_limit=limit, threads=1, integrality_tolerance=1e-9)
    )
    return found.incumbent or 0.0, found.bound


def ours(network: lipyomo.Network, limit: float, check: bool = True) -> tuple[float, float]:
    """The two ends that method ``mip`` reaches."""
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 1, network.input_dim))
    settings = lipyomo.Settings(solver="highs", workers=1, time_limit=limit, check_claims=check)
    found = lipyomo.solve(problem, "mip", settings)
    return found.lower, found.upper


def unchecked(network: lipyomo.Network, limit: float) -> tuple[float, float]:
    """The two ends that method ``mip`` reaches on the solver's word."""
    return ours(network, limit, check=False)


def main(words: Sequence[str]) -> None:
    """Print a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m experiments mip", description=__doc__)
    parser.add_argument("--limit", type=float, default=25.0)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--without-plain", action="store_true")
    chosen = parser.parse_args(words)
    ratios: list[list[float]] = []
    ours(gaussian((2, 6, 6, 1), 0), 20.0)  # imports
    for place, (name, network) in enumerate(networks(not chosen.untrained)):
        if chosen.only and place not in chosen.only:
            continue
        line, seconds = f"{place:2d} {name:26}", []
        for method in (ours,) if chosen.without_plain else (ours, unchecked, plain):
            began = time.process_time()
            lower, upper = method(network, chosen.limit)
            took = time.process_time() - began
            gap = (upper - lower) / max(lower, 1e-12)
            # A busy machine gives less than a second of a core in a second.
            seconds.append(took if close_enough(lower, upper) else max(took, chosen.limit))
            line += f"{seconds[-1]:8.2f} s {lower:10.6f} {100.0 * gap:7.2g} %"
        ratios.append([own / seconds[-1] for own in seconds[:2]])
        print(line, *(f"{ratio:6.2f}" for ratio in ratios[-1]), flush=True)
    for name, column in zip(("as it is", "unchecked"), np.transpose(ratios), strict=False):
        low, median, high = np.quantile(column, [0.25, 0.5, 0.75])
        print(f"{name}: median ratio {median:.2f}, quartiles {low:.2f} and {high:.2f}")
