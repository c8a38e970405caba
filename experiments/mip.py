"""The MIP route beside the plain big-M form of the LipMIP paper, on small networks, with HiGHS.

    python -m experiments mip [--limit 25] [--only 0 3 7] [--untrained]

Twenty networks of 20 to 60 units, half of them trained.  "plain" is one model: big-Ms from interval
bounds, the adjoint encoding, no start, no cells, no probing.  CPU seconds of this process, one
thread; what is open at the limit counts as the limit.
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


def networks(trained: bool = True) -> Iterator[tuple[str, lipyomo.Network]]:
    """Names and networks: random ones, then those fitted to ``sum_i sin(3 x_i) x_{i+1}``."""
    for seed, sizes in enumerate(SIZES):
        yield f"{'-'.join(map(str, sizes))} random", gaussian(sizes, seed)
    for seed, sizes in enumerate(SIZES if trained else ()):
        rng = np.random.default_rng(100 + seed)
        x = rng.uniform(-1.0, 1.0, (2000, sizes[0]))
        y = np.sum(np.sin(3.0 * x) * np.roll(x, -1, axis=1), axis=1, keepdims=True)
        y = np.hstack([y, np.prod(x[:, :2], axis=1, keepdims=True)])[:, : sizes[-1]]
        found = train_regressor(sizes, x, y, epochs=40, seed=seed)
        yield f"{'-'.join(map(str, sizes))} trained", found.network()


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


def ours(network: lipyomo.Network, limit: float) -> tuple[float, float]:
    """The two ends that method ``mip`` reaches."""
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 1, network.input_dim))
    found = lipyomo.solve(problem, "mip", solver="highs", workers=1, time_limit=limit)
    return found.lower, found.upper


def main(words: Sequence[str]) -> None:
    """Print a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m experiments mip", description=__doc__)
    parser.add_argument("--limit", type=float, default=25.0)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--without-plain", action="store_true")
    chosen = parser.parse_args(words)
    ratios = []
    ours(lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[3.0, 1.0]]]), 1.0)  # imports
    for place, (name, network) in enumerate(networks(not chosen.untrained)):
        if chosen.only and place not in chosen.only:
            continue
        line, seconds = f"{place:2d} {name:26}", []
        for method in (ours,) if chosen.without_plain else (ours, plain):
            began = time.process_time()
            lower, upper = method(network, chosen.limit)
            seconds.append(time.process_time() - began)
            gap = (upper - lower) / max(lower, 1e-12)
            line += f"{seconds[-1]:8.2f} s {lower:10.6f} {100.0 * gap:7.2g} %"
        ratios.append(seconds[0] / seconds[-1])
        print(line, f"{ratios[-1]:6.2f}", flush=True)
    print(f"median ratio {np.median(ratios):.2f}")
