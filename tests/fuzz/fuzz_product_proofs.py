"""False proofs about products: ``python tests/fuzz/fuzz_product_proofs.py COUNT [FIRST]``.

All networks have products, quotients, softmax or normalisation; some files pair other units.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
from fuzz_proofs import falsified, run
from product_networks import PRODUCTS, small_box
from smooth_networks import network_of

from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import LipyomoError


def product_problem(rng: np.random.Generator, seed: int) -> LipschitzProblem | None:
    """A network of products on a box, None where it is not defined on all of it."""
    layers = PRODUCTS[str(rng.choice(list(PRODUCTS)))](rng)
    network = network_of(layers, "products")
    d = network.input_dim
    norms = str(rng.choice(["linf", "linf", "l1", "l2"])), str(rng.choice(["linf", "l1", "l2"]))
    try:
        return LipschitzProblem(network, Box(*small_box(rng, d)), *norms)
    except LipyomoError:
        return None


def repaired(first: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The same, mostly, or with pairs that are exchanged, left out, or made of others."""
    layers = copy.deepcopy(first["network"])
    paired = [layer for layer in layers if layer.get("products")]
    if not paired or rng.random() < 0.7:
        return first
    layer = paired[int(rng.integers(len(paired)))]
    pairs, kind = layer["products"], rng.integers(3)
    at, other = rng.integers(len(pairs), size=2).tolist()
    if kind == 0:
        pairs[at][0], pairs[other][0] = pairs[other][0], pairs[at][0]
    elif kind == 1:
        del pairs[at]
    else:
        pairs[at].reverse()
    return first | {"network": layers}


def false_file(first: dict[str, Any], payload: bytes, rng: np.random.Generator) -> bytes:
    """A file that claims what is not true, perhaps of other pairs."""
    return falsified(repaired(first, rng), payload, rng)


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    found = run(*arguments, problems=product_problem, files=false_file)
    print(f"{arguments[0]} false files, {len(found)} accepted", *found, sep="\n")
    sys.exit(bool(found))
