"""False proofs about products: ``python tests/fuzz/fuzz_product_proofs.py COUNT [FIRST]``.

All networks have products, quotients, softmax or normalisation, or are derivatives; they are about
constants, ranges, residuals, Lie derivatives on shells and smoothness.  Some files pair other
units.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import fuzz_derivatives as derivatives
import numpy as np
from fuzz_proofs import falsified, prove_constant, run
from product_networks import PRODUCTS, small_box
from smooth_networks import network_of

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, LipyomoError, Network, networks
from lipyomo.base.errors import ProofError
from lipyomo.proofs import lie_network, write_value_proof
from lipyomo_check.formats import Edition


def of_products(rng: np.random.Generator, seed: int, path: Path) -> bool:
    """The constant of a network of products on a box, or the range of each of its outputs."""
    layers = PRODUCTS[str(rng.choice(list(PRODUCTS)))](rng)
    network = network_of(layers, "products")
    box = Box(*small_box(rng, network.input_dim))
    norms = str(rng.choice(["linf", "linf", "l1", "l2"])), str(rng.choice(["linf", "l1", "l2"]))
    try:
        if seed % 2:
            return prove_range(network, box, path)
        return prove_constant(LipschitzProblem(network, box, *norms), path)
    except LipyomoError:  # it is not defined on all of the box
        return False


def of_derivatives(rng: np.random.Generator, seed: int, path: Path) -> bool:
    """A residual, a Lie derivative on a shell, or a smoothness constant."""
    network, box, rng = derivatives.draw(seed)
    size = float(rng.normal())
    if seed % 3 == 0:
        left = networks.residual(network, lambda u, x: u.d(0) + u * u.d(0, 0) - size * x[0])
        return prove_range(left, box, path)
    norm = str(rng.choice(["linf", "l1", "l2"]))
    if seed % 3 == 1:
        return prove_constant(lipyomo.smoothness_problem(network, box, norm), path)
    d = network.input_dim
    field = Network([Layer(rng.normal(size=(d, d)), rng.normal(size=d))])
    levels = network.forward(box.sample(rng, 50))[:, 0]
    shell = tuple(np.quantile(levels, [0.3, 0.8]).tolist())
    try:
        found = lipyomo.lie_derivative(network, field, box, shell=shell, time_limit=1.0)
    except LipyomoError:  # a function that is constant on all of the box
        return False
    along = lie_network(network, field)
    return _written(path, along, box, found, shell=(network, shell), ends="high")


def prove_range(network: Network, box: Box, path: Path) -> bool:
    """Write the proof of the range of each output."""
    rows = list(np.eye(network.output_dim))[:2]
    found = [lipyomo.value_range(network, box, row, time_limit=1.0) for row in rows]
    return _written(path, network, box, found, rows)


def _written(path: Path, *case: Any, **more: Any) -> bool:
    try:
        return write_value_proof(path, *case, **more, time_limit=3.0).cases > 0
    except ProofError:  # nothing was attained in time
        return False


def of_any_kind(rng: np.random.Generator, seed: int, path: Path) -> bool:
    """Both in turn."""
    if seed % 2:
        return of_derivatives(rng, seed // 2, path)
    return of_products(rng, seed // 2, path)


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
    """A file that claims what is not true, perhaps of other pairs, or in another format."""
    if rng.random() < 0.1:
        first = first | {"format": str(rng.choice([edition.value for edition in Edition]))}
    return falsified(repaired(first, rng), payload, rng)


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    found = run(*arguments, prove=of_any_kind, files=false_file)
    print(f"{arguments[0]} false files, {len(found)} faults", *found, sep="\n")
    sys.exit(bool(found))
