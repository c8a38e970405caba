"""Networks made of hostile networks, beside plain chains that are put together here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from fuzz_networks import ORDINARY, Rng, chain, integers, normals, tenths
from fuzz_oracle import PlainLayer

from lipyomo import Layer, Network, networks

Chain = list[PlainLayer]
Made = tuple[Network, Chain]

PARTS = ("plain", "ties", "duplicates", "dead", "decimal", "float32", "residual", "affine_runs")
"""Families of the parts."""


def network_of(layers: Sequence[PlainLayer]) -> Network:
    return Network([Layer(v.weight, v.bias, v.left, v.right) for v in layers])


def affine(weight: np.ndarray, bias: np.ndarray) -> PlainLayer:
    ones = np.ones(len(bias))
    return PlainLayer(weight, bias, ones, ones)


def diagonal(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    above = np.hstack([first, np.zeros((len(first), second.shape[1]))])
    return np.vstack([above, np.hstack([np.zeros((len(second), first.shape[1])), second])])


def beside(first: Chain, second: Chain) -> Chain:
    """Both chains of the same inputs; the inputs of the shorter one are passed on before it."""
    d = first[0].weight.shape[1]
    depth = max(len(first), len(second))
    one, two = (
        [affine(np.eye(d), np.zeros(d))] * (depth - len(layers)) + list(layers)
        for layers in (first, second)
    )
    out: Chain = []
    for a, b in zip(one, two, strict=True):
        weight = diagonal(a.weight, b.weight) if out else np.vstack([a.weight, b.weight])
        bias, left, right = (
            np.concatenate(pair) for pair in zip(_units(a), _units(b), strict=True)
        )
        out.append(PlainLayer(weight, bias, left, right))
    return out


def _units(layer: PlainLayer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return layer.bias, layer.left, layer.right


def part(rng: Rng, most: int = 6) -> Chain:
    """A network of at most so many units."""
    while True:
        layers = ORDINARY[str(rng.choice(PARTS))](rng)
        if sum(len(v.bias) for v in layers[:-1]) <= most:
            return layers


def relative(rng: Rng, layers: Chain) -> Chain:
    """A network like another one: rounded, pruned, shifted, in parts the same, or permuted."""
    kind = str(rng.choice(["rounded", "pruned", "nudged", "head", "bias", "permuted", "same"]))
    out = list(layers)
    for i, layer in enumerate(out):
        weight, bias = layer.weight.copy(), layer.bias.copy()
        last = i == len(out) - 1
        if kind == "rounded":
            step = 2.0 ** -float(rng.integers(1, 8))
            weight = np.rint(weight / step) * step
        elif kind == "pruned":
            weight[np.abs(weight) < 0.3] = 0.0
        elif kind == "nudged" and rng.random() < 0.5:
            weight = np.nextafter(weight, np.inf)
        elif kind == "head" and last:
            weight = weight * float(rng.choice([0.5, -1.0, 3.0, 1.1]))
        elif kind == "bias":
            bias = bias + float(rng.choice([0.0, 2.0**-20, 0.1]))
        out[i] = PlainLayer(weight, bias, layer.left, layer.right)
    if kind == "permuted" and len(out) > 1:
        first, after = out[0], out[1]
        order = rng.permutation(len(first.bias))
        out[0] = PlainLayer(first.weight[order], *(values[order] for values in _units(first)))
        out[1] = PlainLayer(after.weight[:, order], *_units(after))
    return out


def minus(f: Chain, g: Chain) -> Made:
    m = len(f[-1].bias)
    whole = [*beside(f, g), affine(np.hstack([np.eye(m), -np.eye(m)]), np.zeros(m))]
    return networks.difference(network_of(f), network_of(g)), whole


def relatives(rng: Rng) -> Made:
    """f - g of similar networks."""
    f = part(rng)
    return minus(f, relative(rng, f))


def strangers(rng: Rng) -> Made:
    """f - g of networks that have nothing in common, depths neither."""
    f = part(rng)
    inner = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    sizes = (f[0].weight.shape[1], *inner, len(f[-1].bias))
    kind = (integers, normals, tenths)[int(rng.integers(0, 3))]
    return minus(f, chain(rng, sizes, kind, lambda r, n: kind(r, (n,)), mixed=True))


def sides(rng: Rng) -> Made:
    """Both networks side by side, in an affine map."""
    f = part(rng)
    g = relative(rng, f)
    A, b = tenths(rng, (2, 2 * len(f[-1].bias))), tenths(rng, (2,))
    both = networks.parallel(network_of(f), network_of(g))
    return networks.affine_after(both, A, b), [*beside(f, g), affine(A, b)]


def afterwards(rng: Rng) -> Made:
    """g after f."""
    f = part(rng, 4)
    sizes = (len(f[-1].bias), int(rng.integers(1, 4)), int(rng.integers(1, 3)))
    g = chain(rng, sizes, tenths, lambda r, n: tenths(r, (n,)), mixed=rng.random() < 0.5)
    return networks.compose(network_of(g), network_of(f)), [*f, *g]


def loops(rng: Rng) -> Made:
    """Some steps of an affine plant and a policy."""
    n, steps = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    policy = chain(rng, (n, int(rng.integers(1, 4)), 1), tenths, lambda r, k: normals(r, (k,)))
    A, B, c = tenths(rng, (n, n)), tenths(rng, (n, 1)), tenths(rng, (n,))
    step = [*beside([affine(np.eye(n), np.zeros(n))], policy), affine(np.hstack([A, B]), c)]
    return networks.unroll((A, B, c), network_of(policy), steps), step * steps


COMPOSED: dict[str, Callable[[Rng], Made]] = {
    f.__name__: f for f in (relatives, strangers, sides, afterwards, loops)
}
