"""Work that linear algebra would do in several threads, by entry point; run as a program.

It prints, as JSON, of each the CPU and the wall seconds, the share of them in which there was more
than one thread, and the threads there are after it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import scipy.linalg
from threadpoolctl import ThreadpoolController

import lipyomo
import lipyomo.cli.main
from lipyomo import Box, Curve, Layer, LipschitzProblem, Network, Settings
from lipyomo.analyses.compare import compare
from lipyomo.blocks import LipschitzBlock, ReluNetworkBlock, rebuild
from lipyomo.methods import get_method
from lipyomo.problems.run import Run
from lipyomo.proofs import write_proof
from lipyomo.relaxations.linear import adjoint_limits, preactivation_bounds
from lipyomo_check import check_proof

Entry = Callable[[Path], object]


def network(sizes: tuple[int, ...], smooth: bool = False) -> Network:
    rng = np.random.default_rng(0)
    layers = []
    for inputs, units in pairwise(sizes):
        weight = rng.normal(size=(units, inputs)) / np.sqrt(inputs)
        last = len(layers) == len(sizes) - 2
        curves = [Curve(lipyomo.activation("tanh"), range(units))] if smooth and not last else []
        slopes = (1.0, 1.0) if last else (0.0, 1.0)
        layers.append(Layer(weight, rng.normal(size=units) * 0.1, *slopes, curves=curves))
    return Network(layers)


def problem(sizes: tuple[int, ...], smooth: bool = False, reach: float = 1.0) -> LipschitzProblem:
    return LipschitzProblem(network(sizes, smooth), Box(-reach, reach, sizes[0]))


SMOOTH, WIDE = (2, 64, 64, 1), (10, 60, 60, 1)
FEW: dict[str, Any] = {"time_limit": 0.4}


def command(*words: object) -> None:
    lipyomo.cli.main.main([str(word) for word in words])


def block(folder: Path) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(10), bounds=(-1, 1))
    model.net = ReluNetworkBlock()
    model.net.build_formulation(network(WIDE), inputs=model.x)
    model.steep = LipschitzBlock()
    model.steep.build_formulation(model.net)
    model.x[0].setub(2.0)
    rebuild(model)


def bounds(folder: Path) -> None:
    deep = network((50, 400, 400, 400, 1))
    adjoint_limits(deep, preactivation_bounds(deep, Box(-1, 1, 50)), np.ones((1, 1)))


def proof(folder: Path) -> None:
    asked = problem((2, 24, 24, 1), True)
    write_proof(folder / "p", asked, lipyomo.solve(asked, gap=0.5))
    check_proof(folder / "p")


def sweep(folder: Path) -> None:
    boxes = [Box(-r, r, 2) for r in (0.3, 0.4)]
    problems = [LipschitzProblem(network(SMOOTH, True), box) for box in boxes]
    for _ in lipyomo.sweep(problems, workers=1, time_limit=0.2):
        pass


def methods(folder: Path) -> None:
    """Methods of which each has a way of its own, called as the table has them."""
    for name in ("crown", "hr1", "lp", "sdp", "naive", "random_lb", "local_search"):
        method = get_method(name)
        method.run(Run(problem((10, 80, 80, 1)), Settings(**FEW), name, method.guarantee))


ENTRIES: dict[str, Entry] = {
    "solve": lambda folder: lipyomo.solve(problem(SMOOTH, True), **FEW),
    "lipschitz": lambda folder: lipyomo.lipschitz(network(WIDE), box=(-1, 1), **FEW),
    "jacobian_ranges": lambda folder: lipyomo.jacobian_ranges(problem(SMOOTH, True), **FEW),
    "derivative_range": lambda folder: lipyomo.derivative_range(
        problem(SMOOTH, True), None, [1.0, 0.5], **FEW
    ),
    "value_range": lambda folder: lipyomo.value_range(network(SMOOTH, True), Box(-1, 1, 2), **FEW),
    "largest_value": lambda folder: lipyomo.largest_value(problem(SMOOTH, True), **FEW),
    "map_cells": lambda folder: lipyomo.map_cells(problem((2, 64, 64, 1)), (20, 20)),
    "sweep": sweep,
    "certify_robustness": lambda folder: lipyomo.certify_robustness(
        network((20, 60, 60, 3)), np.zeros((1, 20)), radius=0.3, workers=1
    ),
    "check_monotone": lambda folder: lipyomo.check_monotone(
        network(SMOOTH, True), np.zeros((2, 2)), radius=0.5, increasing=[0], workers=1
    ),
    "bounds": bounds,
    "blocks": block,
    "proof": proof,
    "methods": methods,
    "compare": lambda folder: list(compare(problem((10, 80, 80, 1)), ["crown"], time_limit=1.5)),
    "load": lambda folder: lipyomo.load(folder / "large.onnx"),
    "lipyomo jacobian": lambda folder: command(
        "jacobian", folder / "smooth.onnx", "--box=-1,1", "--time-limit", 0.4
    ),
    "lipyomo range": lambda folder: command(
        "range", folder / "smooth.onnx", "--box=-1,1", "--time-limit", 0.4
    ),
}


class Watch:
    """A context that asks every few milliseconds how many threads linear algebra has."""

    def __init__(self) -> None:
        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.seen: list[int] = []

    def threads(self) -> int:
        return max(library.num_threads for library in self._libraries)

    def _ask(self) -> None:
        while not self._over.wait(0.005):
            self.seen.append(self.threads())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def main(folder: Path, names: list[str]) -> None:
    scipy.linalg.solve(np.eye(300), np.ones(300))  # threads start, and wait for work for a while
    time.sleep(0.5)
    lipyomo.to_onnx(network(SMOOTH, True), folder / "smooth.onnx")
    lipyomo.to_onnx(network((300, 1000, 1000, 10)), folder / "large.onnx")
    found = {}
    for name in names or ENTRIES:
        with Watch() as watch:
            cpu, wall = time.process_time(), time.perf_counter()
            ENTRIES[name](folder)
            seconds = time.process_time() - cpu, time.perf_counter() - wall
        several = sum(count > 1 for count in watch.seen) / max(len(watch.seen), 1)
        found[name] = (*seconds, several, watch.threads())
        print(name, found[name], file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
