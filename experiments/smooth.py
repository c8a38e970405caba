"""Smooth networks that other tools only bound from above: trained ones, and deep random ones.

Usage::

    python -m experiments smooth [--cases NAME ...] [--time 60] [--threads 1]
    python -m experiments smooth --table

Prints one line a case: both ends, their gap, CPU seconds of this process and nodes; for the deep
ones also the bounds of the methods ``eclipse`` and ``lipsdp``.

- ``10-20-20-1``: a tanh regressor, trained by scikit-learn on ``sin 2a cos b + .3 |x|^2 / d`` at
  4000 points of [-2, 2]^10, on cubes around zero.
- ``5-128x5``: the sizes of ECLipsE-Gen-Local (Xu, Sivaranjani, 2025), five inputs and five hidden
  layers of 128 units; weights are uniform as in a new ``torch.nn.Linear``.  Seeds and radii of the
  paper are not known: these are 0 and 1, and balls around zero of radius 1/5 to 5.

With ``--table``: exact constants of small networks on [-2, 2]^d (linf), and what estimators make of
them, as a table of shares of the constant.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

import lipyomo
from lipyomo import Box, LipschitzProblem, LipyomoError, Network, ball
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer

SIDE_BY_SIDE = ("eclipse", "lipsdp")
"""Methods whose bounds are printed beside the interval of the deep networks."""


UPPER = ("sdp", "lipsdp", "eclipse", "crown", "fastlip", "naive")
"""Methods of the table that bound from above."""


def trained(inputs: int, hidden: Sequence[int], seed: int = 0, kind: str = "tanh") -> Network:
    """A regressor with tanh or sigmoid units."""
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, (4000, inputs))
    y = np.sin(2.0 * x[:, 0]) * np.cos(x[:, 1]) + 0.3 * (x * x).sum(axis=1) / inputs
    model = MLPRegressor(
        hidden_layer_sizes=hidden,
        activation={"tanh": "tanh", "sigmoid": "logistic"}[kind],
        max_iter=300,
        random_state=seed,
    ).fit(x, y)
    pairs = zip(model.coefs_, model.intercepts_, strict=True)
    return _network([(weight.T, bias) for weight, bias in pairs], kind)


def random(sizes: Sequence[int], kind: str, seed: int) -> Network:
    """A network with new weights; `kind` is an activation, or ``leaky`` for slopes .01 and 1."""
    rng, layers = np.random.default_rng(seed), []
    for before, units in pairwise(sizes):
        end = before**-0.5
        layers.append((rng.uniform(-end, end, (units, before)), rng.uniform(-end, end, units)))
    return _network(layers, kind)


def _network(layers: Sequence[tuple[np.ndarray, np.ndarray]], kind: str) -> Network:
    hidden = [
        Layer(weight, bias, 0.01, 1.0)
        if kind == "leaky"
        else Layer(weight, bias, curves=(Curve(activation(kind), np.arange(len(bias))),))
        for weight, bias in layers[:-1]
    ]
    return Network([*hidden, Layer(*layers[-1])])


def cases() -> Iterator[tuple[str, Callable[[], LipschitzProblem], Sequence[str]]]:
    """Names, problems, and the methods that are printed beside the interval."""
    for radius in (0.5, 1.0):
        yield f"10-20-20-1 tanh [-{radius:g},{radius:g}]", partial(_on_cube, radius), ()
    for kind in ("leaky", "tanh"):
        for seed in (0, 1):
            for radius in (0.2, 1.0, 5.0):
                build = partial(_on_ball, kind, seed, radius)
                yield f"5-128x5 {kind} seed {seed} radius {radius:g}", build, SIDE_BY_SIDE


def _on_cube(radius: float) -> LipschitzProblem:
    return LipschitzProblem(trained(10, (20, 20)), Box(-radius, radius, 10))


def _on_ball(kind: str, seed: int, radius: float) -> LipschitzProblem:
    domain = ball(np.zeros(5), radius, norm="l2")
    return LipschitzProblem(random((5, *[128] * 5, 1), kind, seed), domain, "l2")


def table(time_limit: float) -> Iterator[str]:
    """Rows of a table: exact constants, and what estimators say as shares of them."""
    yield "| network | constant | CPU s | random points | CLEVER | " + " | ".join(UPPER) + " |"
    yield "|---" * (5 + len(UPPER)) + "|"
    built = [
        (f"{d}-{'-'.join(map(str, hidden))}-1 {kind}, trained", trained(d, hidden, kind=kind))
        for d, hidden, kind in (
            (2, (16, 16), "tanh"),
            (2, (16, 16), "sigmoid"),
            (4, (24, 24), "tanh"),
            (6, (16, 16), "tanh"),
        )
    ]
    for kind in ("silu", "gelu", "elu", "softplus", "mish"):
        built.append((f"3-32-32-1 {kind}, random", random((3, 32, 32, 1), kind, 0)))
    for name, network in built:
        problem, began = (
            LipschitzProblem(network, Box(-2, 2, network.input_dim)),
            time.process_time(),
        )
        found = lipyomo.solve(problem, time_limit=time_limit)
        seconds = time.process_time() - began
        constant = (
            f"{found.upper:.6f}" if found.is_exact else f"[{found.lower:.4g}, {found.upper:.4g}]"
        )
        clever = lipyomo.solve(problem, "clever").estimate
        points = lipyomo.solve(problem, "random_lb").lower
        uppers = [lipyomo.solve(problem, method, time_limit=time_limit).upper for method in UPPER]
        shares = [f"{(value or 0.0) / found.upper:.2f}" for value in (points, clever, *uppers)]
        yield f"| {name} | {constant} | {seconds:.1f} | " + " | ".join(shares) + " |"


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments smooth", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of case names")
    parser.add_argument("--time", type=float, default=60.0, help="seconds of a run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="estimators against exact constants")
    options = parser.parse_args(words)
    if options.table:
        for row in table(options.time):
            print(row, flush=True)
        return
    for case, build, others in cases():
        if not any(part in case for part in options.cases):
            continue
        problem, began = build(), time.process_time()
        found = lipyomo.solve(problem, time_limit=options.time, workers=options.threads)
        seconds = time.process_time() - began
        line = f"{case:34s} [{found.lower:.6g}, {found.upper:.6g}] {found.status:10s}"
        line += f" {seconds:7.1f} s CPU {found.nodes:8d} nodes"
        for method in others:
            try:
                upper = lipyomo.solve(problem, method, time_limit=options.time).upper
                line += f"  {method} {upper:.6g}"
            except LipyomoError as error:
                line += f"  {method}: {str(error).splitlines()[0]}"
        print(line, flush=True)
