"""The worst margin of an image over a linf ball: lipyomo, OMLT, gurobi-machinelearning.

    python -m experiments adversarial --mnist ../shared/data/mnist
    python -m experiments adversarial --mnist DIR --radii 0.04 --images 1 --ways lipyomo gurobi-ml

The network, 784-50-50-10, is trained here (cross-entropy, Adam 1e-3, 40 epochs, batches of 64, seed
0) on MNIST's test set, of which every fourth image is held out; the images are the first of those
that it classifies rightly.  The largest margin of the runner-up class is asked for, with a relative
gap of 1e-4 and one thread, all else by default.  ``lipyomo`` and ``omlt`` use the solver of
``--solver``, ``gurobi-ml`` the licence of Gurobi that there is (its free one suffices).  CPU
seconds.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo

from experiments.build import omlt_forward
from experiments.mnist import held_out
from experiments.training.train import train_classifier
from lipyomo import Box, Network
from lipyomo.base.arrays import FloatArray
from lipyomo.blocks import ReluNetworkBlock
from lipyomo.solvers import SolverOptions, solve_model

GAP = 1e-4

Answer = tuple[float | None, float | None, int]
"""Best value, bound, nodes."""


def ours(network: Network, box: Box) -> Any:
    model = pyo.ConcreteModel()
    model.net = ReluNetworkBlock()
    model.net.build_formulation(network, domain=box)
    return model


def by_pyomo(
    build: Callable[[Network, Box], Any], solver: str, limit: float
) -> Callable[[Network, Box, FloatArray], Answer]:
    """A way that goes by a Pyomo model with ``net.outputs``."""

    def way(network: Network, box: Box, margin: FloatArray) -> Answer:
        model = build(network, box)
        terms = zip(margin.tolist(), model.net.outputs.values(), strict=True)
        model.goal = pyo.Objective(expr=sum(c * y for c, y in terms if c), sense=pyo.maximize)
        options = SolverOptions(time_limit=limit, threads=1, rel_gap=GAP)
        outcome = solve_model(model, solver, options)
        return outcome.incumbent, outcome.bound, outcome.nodes

    return way


def by_gurobi_ml(limit: float) -> Callable[[Network, Box, FloatArray], Answer]:
    """gurobi-machinelearning, from a PyTorch module; ``pip install gurobi-machinelearning``."""
    import gurobipy
    import torch
    from gurobi_ml import add_predictor_constr

    def way(network: Network, box: Box, margin: FloatArray) -> Answer:
        parts = []
        for layer in network.layers:
            linear = torch.nn.Linear(layer.inputs, layer.units, dtype=torch.float64)
            linear.weight.data = torch.tensor(layer.dense_weight)
            linear.bias.data = torch.tensor(layer.bias)
            parts += [linear, torch.nn.ReLU()]
        module = torch.nn.Sequential(*parts[:-1])
        with (
            gurobipy.Env(params={"OutputFlag": 0}) as env,
            gurobipy.Model(env=env) as model,
        ):
            x = model.addMVar(network.input_dim, lb=box.lower, ub=box.upper)
            y = model.addMVar(network.output_dim, lb=-np.inf)
            add_predictor_constr(model, module, x, y)
            model.setObjective(margin @ y, gurobipy.GRB.MAXIMIZE)
            model.Params.Threads, model.Params.TimeLimit, model.Params.MIPGap = 1, limit, GAP
            model.optimize()
            return model.ObjVal, model.ObjBound, int(model.NodeCount)

    return way


def main(words: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments adversarial",
        description=__doc__.splitlines()[0] if __doc__ else "",
    )
    parser.add_argument("--mnist", type=Path, required=True, help="folder of the t10k files")
    parser.add_argument("--radii", type=float, nargs="+", default=[0.02, 0.04])
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--solver", default="highs")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a solve")
    parser.add_argument(
        "--ways", nargs="+", choices=("lipyomo", "omlt", "gurobi-ml"), default=["lipyomo", "omlt"]
    )
    arguments = parser.parse_args(words)
    logging.getLogger("pyomo").setLevel(logging.ERROR)  # OMLT's values are outside of its bounds
    split = held_out(arguments.mnist, tuple(range(10)))
    trained = train_classifier(
        (784, 50, 50, 10), split.images, split.labels, epochs=40, batch_size=64
    )
    network = trained.network()
    scores = network.forward(split.held_images.astype(np.float64))
    right = np.flatnonzero(scores.argmax(axis=1) == split.held_labels)
    print(f"{right.size / len(scores):.2%} of the images held out are classified rightly\n")
    print("| image | radius | way | CPU s | value | bound | nodes |\n|--:|--:|---|--:|--:|--:|--:|")
    for k in right[: arguments.images].tolist():
        first, second = np.argsort(scores[k])[[-1, -2]].tolist()
        margin = np.eye(10)[second] - np.eye(10)[first]
        image = split.held_images[k].astype(np.float64)
        for radius in arguments.radii:
            box = Box(np.maximum(image - radius, 0.0), np.minimum(image + radius, 1.0))
            for name in arguments.ways:
                if name == "gurobi-ml":
                    way = by_gurobi_ml(arguments.limit)
                else:
                    build = ours if name == "lipyomo" else omlt_forward
                    way = by_pyomo(build, arguments.solver, arguments.limit)
                start = time.process_time()
                value, bound, nodes = way(network, box, margin)
                seconds = time.process_time() - start
                print(
                    f"| {k} | {radius:g} | {name} | {seconds:.1f} | {value:.4f} | {bound:.4f} | "
                    f"{nodes} |",
                    flush=True,
                )
