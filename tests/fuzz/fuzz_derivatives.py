"""Fuzz of derivative networks: ``python tests/fuzz/fuzz_derivatives.py --count 1000 --first 0``.

Draws small smooth networks by seed and asks for their gradients, Hessians, directional derivatives,
residuals, smoothness, curvature, ranges, maps and Lie derivatives.  The oracle is independent of
all of that: differences of the function itself, in 200 digits.  Every answer that breaks a promise
is printed with its seed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from mpmath import mp, mpf

import lipyomo
from lipyomo import Box, Curve, Layer, LipschitzProblem, LipyomoError, Network, activation, networks

DIGITS = 200
STEP = mpf(10) ** -40
"""Of differences: what they leave out is of the size of its square, what rounds is far below."""

SMOOTH: dict[str, Callable[[mpf], mpf]] = {
    "tanh": mp.tanh,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "softplus": lambda z: mp.log(1 + mp.exp(z)),
    "silu": lambda z: z / (1 + mp.exp(-z)),
    "gelu": lambda z: z * mp.ncdf(z),
    "erf": mp.erf,
    "sin": mp.sin,
    "cos": mp.cos,
}
KINDS = {activation(name): name for name in SMOOTH}
NORMS = ("linf", "l1", "l2")


class Oracle:
    """A network in many digits, and differences of it."""

    def __init__(self, network: Network) -> None:
        self._layers = []
        for layer in network.layers:
            names: list[str | None] = [None] * layer.units
            for curve in layer.curves:
                for unit in curve.units.tolist():
                    names[unit] = KINDS[curve.activation]
            self._layers.append((layer.dense_weight.tolist(), layer.bias.tolist(), names))

    def __call__(self, x: list[mpf]) -> mpf:
        """The one output."""
        for weight, bias, names in self._layers:
            x = [mp.fdot(row, x) + b for row, b in zip(weight, bias, strict=True)]
            x = [z if name is None else SMOOTH[name](z) for z, name in zip(x, names, strict=True)]
        return x[0]

    def derivatives(self, at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian."""
        d, h = at.size, STEP
        with mp.workdps(DIGITS):
            x = [mpf(float(one)) for one in at]

            def moved(*steps: tuple[int, int]) -> mpf:
                y = list(x)
                for k, times in steps:
                    y[k] += times * h
                return self(y)

            here = self(x)
            ahead, behind = ([moved((k, s)) for k in range(d)] for s in (1, -1))
            gradient = [float((a - b) / (2 * h)) for a, b in zip(ahead, behind, strict=True)]
            hessian = np.zeros((d, d))
            for i in range(d):
                hessian[i, i] = float((ahead[i] - 2 * here + behind[i]) / h**2)
                for j in range(i):
                    corners = [moved((i, s), (j, t)) * s * t for s in (1, -1) for t in (1, -1)]
                    hessian[i, j] = hessian[j, i] = float(mp.fsum(corners) / (4 * h**2))
            return float(here), np.array(gradient), hessian


def draw(seed: int) -> tuple[Network, Box, np.random.Generator]:
    """A network with one output, mixed units, some of them alike, some weights zero; and a box."""
    rng = np.random.default_rng(seed)
    d, depth = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    sizes = [d, *rng.integers(1, 5, depth).tolist()]
    layers = []
    for inputs, units in itertools.pairwise(sizes):
        weight = rng.normal(size=(units, inputs)) * rng.choice([0.3, 1.0, 2.0])
        if rng.random() < 0.3:
            weight[rng.random(weight.shape) < 0.4] = 0.0
        if rng.random() < 0.2:
            weight = np.round(weight)
        if rng.random() < 0.2 and units > 1:
            weight[1] = weight[0] * rng.choice([1.0, -1.0, 2.0])
        kinds = rng.choice(list(SMOOTH), size=units)
        curves = [Curve(activation(str(kind)), [k]) for k, kind in enumerate(kinds)]
        curves = [curve for curve in curves if rng.random() < 0.9]
        given = sp.csr_array(weight) if rng.random() < 0.3 else weight
        layers.append(Layer(given, 0.5 * rng.normal(size=units), curves=curves))
    layers.append(Layer(rng.normal(size=(1, sizes[-1])), [float(rng.normal())]))
    centre, width = rng.normal(size=d), 10.0 ** rng.uniform(-3, -0.2)
    return Network(layers), Box(centre - width, centre + width), rng


def norm_of(H: np.ndarray, norm: str) -> float:
    """The operator norm of a symmetric matrix from a norm to its dual."""
    if norm == "l1":
        return float(np.abs(H).max())
    if norm == "l2":
        return float(np.linalg.norm(H, 2))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(H))))
    return float(np.abs(H @ signs.T).sum(axis=0).max())


def faults(seed: int, seconds: float = 1.0) -> list[str]:
    """What is wrong with answers about the network of a seed."""
    network, box, rng = draw(seed)
    oracle, d = Oracle(network), network.input_dim
    points = [*box.sample(rng, 2), box.lower, box.upper]
    truth = [oracle.derivatives(x) for x in points]
    found: list[str] = []

    def same(name: str, value: np.ndarray, true: np.ndarray) -> None:
        # a rounding of the last digit can be amplified by all layers
        if not np.allclose(value, true, rtol=1e-8, atol=1e-9):
            found.append(f"{name}: {value} is not {true}")

    def between(name: str, ends: lipyomo.Range, true: list[float]) -> None:
        room = 1e-8 * (1.0 + max(map(abs, true)))
        if min(true) < ends.low[0] - room or max(true) > ends.high[1] + room:
            found.append(f"{name}: {min(true)}, {max(true)} outside of {ends.low}, {ends.high}")
        if ends.low[0] > ends.low[1] or ends.high[0] > ends.high[1]:
            found.append(f"{name}: crossed ends {ends.low}, {ends.high}")

    gradient, hessian = networks.gradient(network), networks.hessian(network)
    v = rng.normal(size=d)
    second = networks.directional(network, v, 2)
    i, j = int(rng.integers(d)), int(rng.integers(d))
    left = networks.residual(network, lambda u, x: u.d(i) + u * u.d(j) - 0.1 * u.d(i, j) * x[i])
    rest = []
    for x, (value, g, H) in zip(points, truth, strict=True):
        same("gradient", gradient.forward(x), g)
        same("hessian", hessian.forward(x).reshape(d, d), H)
        same("directional", second.forward(x), v @ H @ v)
        rest.append(g[i] + value * g[j] - 0.1 * H[i, j] * x[i])
        same("residual", left.forward(x), rest[-1])
    ends = lipyomo.value_range(left, box, time_limit=seconds)
    between("range of the residual", ends, rest)
    for place, end in zip(ends.witnesses, (ends.low[1], ends.high[0]), strict=True):
        if place is not None and place.rest is None:
            value, g, H = oracle.derivatives(place.x)
            same("witness", end, g[i] + value * g[j] - 0.1 * H[i, j] * place.x[i])
    norm = str(rng.choice(NORMS))
    bound = lipyomo.smoothness(network, box, norm, time_limit=seconds)
    most = max(norm_of(H, norm) for _, _, H in truth)
    if most > bound.upper * (1 + 1e-8) + 1e-10 or bound.lower > bound.upper:
        found.append(f"smoothness {norm}: {most} is above [{bound.lower}, {bound.upper}]")
    if bound.witness is not None and bound.witness.rest is None:
        there = norm_of(oracle.derivatives(bound.witness.x)[2], norm)
        if there < bound.lower * (1 - 1e-8) - 1e-10:
            found.append(f"smoothness {norm}: {there} at the witness of {bound.lower}")
    kind = seed % 3
    if kind == 0:
        bent = lipyomo.curvature(network, box, time_limit=seconds)
        values = np.concatenate([np.linalg.eigvalsh(H) for _, _, H in truth])
        room = 1e-8 * (1.0 + np.abs(values).max())
        if values.min() < bent.least[0] - room or values.max() > bent.largest[1] + room:
            found.append(f"curvature: {values} outside of {bent.least}, {bent.largest}")
    elif kind == 1:
        problem = LipschitzProblem(left, box, output_norm="linf")
        cells = lipyomo.map_cells(problem, (2,) * d, of="values", time_limit=seconds)
        sizes = [abs(one) for one in rest]
        if max(sizes) > cells.largest[1] * (1 + 1e-8) + 1e-10:
            found.append(f"map: {max(sizes)} is above {cells.largest}")
        if (cells.constant_lower > cells.constant_upper).any():
            found.append("map: crossed ends")
    else:
        A, b = rng.normal(size=(d, d)), rng.normal(size=d)
        speed = lipyomo.lie_derivative(network, (A, b), box, time_limit=seconds)
        true = [float(g @ (A @ x + b)) for x, (_, g, _) in zip(points, truth, strict=True)]
        between("Lie derivative", speed, true)
    return found


def main() -> int:
    """Run, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1.0, help="a question (1)")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for seed in range(options.first, options.first + options.count):
        try:
            wrong = faults(seed, options.seconds)
        except LipyomoError as error:
            counts["refused"] += 1
            print(f"seed {seed}: refused: {error}", flush=True)
            continue
        except Exception:
            traceback.print_exc()
            wrong = ["traceback"]
        counts["wrong" if wrong else "right"] += 1
        for line in wrong:
            print(f"seed {seed}: {line}", flush=True)
        if counts.total() % 50 == 0:
            print(dict(counts), f"{time.monotonic() - began:.0f} s", flush=True)
    print(dict(counts), flush=True)
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
