"""Hostile smooth and mixed networks on boxes, drawn by a random generator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from fuzz_networks import Rng, integers, normals, tenths
from smooth_curves import (
    COS,
    ERF,
    GELU,
    GELU_TANH,
    HARD_SWISH,
    MISH,
    SIGMOID,
    SILU,
    SIN,
    SOFTPLUS,
    SOFTSIGN,
    TANH,
    Curve,
    celu,
    elu,
    selu,
    swish,
    two_slope,
)
from smooth_oracle import CurvedLayer

from lipyomo import Layer, Network
from lipyomo.networks.activations import Activation, Exp, Half, Log, Power, activation
from lipyomo.networks.network import Curve as PackageCurve

SMOOTH = (
    TANH, SIGMOID, SOFTPLUS, GELU, GELU_TANH, SILU, MISH, ERF, SIN, COS, SOFTSIGN,
    celu(0.5), celu(1.0), celu(2.0), elu(1.0), swish(1.0), swish(1.702), swish(3.0),
)  # fmt: skip
JUMPING = (
    HARD_SWISH, elu(0.5), elu(2.0),
    selu(1.6732632423543772848170429916717, 1.0507009873554804934193349852946),
)  # fmt: skip
TWO_SLOPE = tuple(
    two_slope(*pair) for pair in ((0.0, 1.0), (0.1, 1.0), (-1.0, 1.0), (0.5, -0.25), (1.0, 1.0))
)
LINE = two_slope(1.0, 1.0)

Drawn = list[CurvedLayer]
Numbers = Callable[[Rng, tuple[int, ...]], np.ndarray]


def widths(rng: Rng) -> tuple[int, ...]:
    """Sizes that the oracle can do: fewer units for more inputs."""
    d = int(rng.choice([1, 1, 2, 2, 3]))
    most, depth = ((6, 3), (4, 2), (3, 2))[d - 1]
    hidden = [int(rng.integers(1, most + 1)) for _ in range(int(rng.integers(1, depth + 1)))]
    return (d, *hidden, int(rng.integers(1, 3)))


def chain(
    rng: Rng,
    sizes: tuple[int, ...],
    curves: Callable[[int], tuple[Curve, ...]],
    weights: Numbers = normals,
    biases: Numbers = normals,
) -> Drawn:
    """Layers from generators of numbers and of the curves of a layer of n units."""
    layers = []
    for i, (k, n) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        layers.append(
            CurvedLayer(weights(rng, (n, k)), biases(rng, (n,)), (LINE,) * n if last else curves(n))
        )
    return layers


def pick(rng: Rng, among: tuple[Curve, ...]) -> Curve:
    return among[int(rng.integers(0, len(among)))]


def one_kind(
    rng: Rng, among: tuple[Curve, ...] = (*SMOOTH, *JUMPING)
) -> Callable[[int], tuple[Curve, ...]]:
    """The same activation in all units."""
    curve = pick(rng, among)
    return lambda n: (curve,) * n


def any_kind(
    rng: Rng, among: tuple[Curve, ...] = (*SMOOTH, *JUMPING, *TWO_SLOPE, *TWO_SLOPE)
) -> Callable[[int], tuple[Curve, ...]]:
    """An activation a unit."""
    return lambda n: tuple(pick(rng, among) for _ in range(n))


def smooth(rng: Rng) -> Drawn:
    """Ordinary weights, one activation."""
    return chain(rng, widths(rng), one_kind(rng), biases=lambda r, s: 0.5 * normals(r, s))


def mixed(rng: Rng) -> Drawn:
    """Activations and two-slope units side by side."""
    weights: Numbers = [normals, tenths, integers][int(rng.integers(0, 3))]
    return chain(rng, widths(rng), any_kind(rng), weights, lambda r, s: 0.5 * normals(r, s))


def steep(rng: Rng) -> Drawn:
    """Rows or layers of scales from 1e-8 to 1e8."""
    out = []
    for layer in smooth(rng) if rng.random() < 0.7 else mixed(rng):
        n = len(layer.bias)
        count = n if rng.random() < 0.5 else 1
        rows = np.broadcast_to(10.0 ** rng.integers(-8, 9, count), (n,))
        out.append(CurvedLayer(rows[:, None] * layer.weight, rows * layer.bias, layer.curves))
    return out


def saturated(rng: Rng) -> Drawn:
    """Dead, constant and saturated units, zero rows and zero heads."""
    layers = mixed(rng) if rng.random() < 0.5 else smooth(rng)
    for i, layer in enumerate(layers):
        weight, bias = layer.weight.copy(), layer.bias.copy()
        hit = rng.random(len(bias)) < 0.4
        if i == len(layers) - 1:
            if rng.random() < 0.1:
                weight[:] = 0.0
        elif rng.random() < 0.5:
            weight[hit] = 0.0
            bias[hit] = rng.choice([-3.0, -1.0, 0.0, 1.0, 3.0], int(hit.sum()))
        else:
            bias[hit] = rng.choice([-1.0, 1.0]) * rng.choice(
                [10.0, 40.0, 100.0, 800.0, 1e6, 1e17], int(hit.sum())
            )
        layers[i] = CurvedLayer(weight, bias, layer.curves)
    return layers


def copies(rng: Rng) -> Drawn:
    """Units repeated, negated, scaled and shifted, whose effects cancel or add."""
    layers = mixed(rng) if rng.random() < 0.5 else smooth(rng)
    at = int(rng.integers(0, len(layers) - 1))
    layer, after = layers[at], layers[at + 1]
    chosen = int(rng.integers(0, len(layer.bias)))
    factor = float(rng.choice([1.0, -1.0, -1.0, 2.0, -0.5]))
    shift = float(rng.choice([0.0, 0.0, 0.0, 1e-9, 1e-3]))
    weight = np.vstack([layer.weight, factor * layer.weight[chosen]])
    bias = np.append(layer.bias, factor * layer.bias[chosen] + shift)
    layers[at] = CurvedLayer(weight, bias, (*layer.curves, layer.curves[chosen]))
    size = float(rng.choice([1.0, -1.0, 1e4, 0.3]))
    column = size * after.weight[:, [chosen]]
    layers[at + 1] = CurvedLayer(np.hstack([after.weight, column]), after.bias, after.curves)
    return layers


def bends(rng: Rng) -> Drawn:
    """Breaks of slopes and curvatures through the centre, corners and faces of the unit box."""
    among = (SOFTSIGN, elu(1.0), celu(0.5), *JUMPING, *TWO_SLOPE[:3])
    kinds = one_kind(rng, among[:-3]) if rng.random() < 0.5 else any_kind(rng, among)
    layers = chain(rng, widths(rng), kinds, integers if rng.random() < 0.5 else normals)
    x = rng.integers(-1, 2, layers[0].weight.shape[1]).astype(float)
    for i, layer in enumerate(layers[:-1]):
        z = layer.weight @ x + layer.bias
        moved = rng.random(z.size) < 0.8
        targets = np.array([float(rng.choice(c.breaks)) if c.breaks else 0.0 for c in layer.curves])
        bias = np.where(moved, layer.bias - z + targets, layer.bias)
        layers[i] = CurvedLayer(layer.weight, bias, layer.curves)
        if rng.random() < 0.5:
            break
        x = np.zeros(len(bias))
    return layers


def slopes_at_faces(rng: Rng) -> Drawn:
    """Units far on one side of the box, so that maxima lie on faces and corners."""
    layers = chain(rng, widths(rng), one_kind(rng), biases=lambda r, s: 3.0 * normals(r, s))
    first = layers[0]
    side = rng.choice([-1.0, 1.0])
    bias = first.bias + side * np.abs(first.weight).sum(axis=1)
    layers[0] = CurvedLayer(first.weight, bias, first.curves)
    return layers


def narrow(rng: Rng) -> Drawn:
    """Many narrow layers."""
    depth = int(rng.integers(3, 7))
    sizes = (int(rng.integers(1, 3)), *[int(rng.integers(1, 3))] * depth, 1)
    return chain(rng, sizes, any_kind(rng), biases=lambda r, s: 0.3 * normals(r, s))


def residual(rng: Rng) -> Drawn:
    """``x + W2 sigma(W1 x + b)``, twice, with identity units."""
    d, curve = int(rng.integers(1, 3)), pick(rng, (*SMOOTH, *JUMPING))
    layers = []
    for _ in range(2):
        n = int(rng.integers(1, 3))
        up = np.vstack([normals(rng, (n, d)), np.eye(d)])
        bias = np.append(normals(rng, (n,)), np.zeros(d))
        layers.append(CurvedLayer(up, bias, (curve,) * n + (LINE,) * d))
        down = np.hstack([normals(rng, (d, n)), np.eye(d)])
        layers.append(CurvedLayer(down, np.zeros(d), (LINE,) * d))
    layers.append(CurvedLayer(normals(rng, (2, d)), np.zeros(2), (LINE,) * 2))
    return layers


def somewhere(rng: Rng) -> Drawn:
    """Ordinary networks, for domains of all kinds."""
    return smooth(rng) if rng.random() < 0.5 else mixed(rng)


ANYWHERE = ("somewhere_units",)
"""Families on balls, polytopes and unbounded domains; the others are on boxes."""

CURVED = {
    f"{f.__name__}_units": f
    for f in (
        smooth, mixed, steep, saturated, copies, bends, slopes_at_faces, narrow, residual,
        somewhere,
    )
}  # fmt: skip


def box_of(rng: Rng, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A box: ordinary, 1e-12 thin, 1e6 wide, far away, with frozen inputs."""
    kind = rng.choice(["unit", "unit", "unit", "box", "thin", "wide", "far", "frozen", "uneven"])
    low, high = -np.ones(d), np.ones(d)
    if kind in ("box", "frozen"):
        low = np.round(rng.uniform(-2, 0.5, d), int(rng.integers(0, 3)))
        high = low + np.round(rng.uniform(0.5, 2, d), 1)
    if kind == "frozen" and d > 1:
        held = int(rng.integers(0, d))
        low[held] = high[held] = rng.choice([0.1, 0.3, 1.0, 0.0])
    elif kind == "thin":
        low = rng.choice([0.0, -0.3, 1.0], d) + 0.0
        high = low + 10.0 ** rng.integers(-12, -2)
    elif kind == "wide":
        high = np.full(d, 10.0 ** rng.integers(1, 7))
        low = -high
    elif kind == "far":
        low = rng.choice([1e2, 1e6]) * np.ones(d)
        high = low + rng.choice([1e-3, 1.0])
    elif kind == "uneven":
        high = low + 10.0 ** rng.integers(-6, 2, d)
    return low, high


def network_of(layers: Drawn, name: str) -> Network:
    """The same network as the package has it."""
    return Network([layer_of(layer) for layer in layers], name)


def kind_of(curve: Curve) -> Activation:
    """The same activation as the package has it."""
    made = {"exp": Exp, "log": Log, "power": Power, "half": Half}.get(curve.name)
    parameters = dict(curve.parameters)
    return activation(curve.name, **parameters) if made is None else made(**parameters)


def layer_of(layer: CurvedLayer) -> Layer:
    """The same layer as the package has it."""
    left, right = np.ones(len(layer.bias)), np.ones(len(layer.bias))
    kinds: dict[Curve, list[int]] = {}
    for k, curve in enumerate(layer.curves):
        if curve.slopes is None:
            kinds.setdefault(curve, []).append(k)
        else:
            left[k], right[k] = curve.slopes
    curves = tuple(PackageCurve(kind_of(curve), np.array(units)) for curve, units in kinds.items())
    return Layer(layer.weight, layer.bias, left, right, curves)
