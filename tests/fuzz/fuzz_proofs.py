"""False proofs of smooth networks: ``python tests/fuzz/fuzz_proofs.py COUNT [FIRST]``.

Each file claims an upper end below the constant, or a lower end above it, with the
boxes of a true proof or with damaged ones.  The checker has to reject all of them.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.activations import activation, activations
from lipyomo.network import Curve, Layer, Network
from lipyomo.proofs import write_proof
from lipyomo_check import ProofError, check_proof

EACH = 50
"""False files of a network."""


def random_network(rng: np.random.Generator) -> Network:
    """One to three inputs, one or two hidden layers, any activations, ReLUs among them."""
    names = [name for name in activations() if name != "two_slope"]
    sizes = [int(rng.integers(1, 4)), *rng.integers(2, 6, rng.integers(1, 3)).tolist(), 1]
    layers = []
    for k, (inputs, units) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((units, inputs)) * np.exp(rng.uniform(-1, 1)) / np.sqrt(inputs)
        left, curves = np.ones(units), []
        if k < len(sizes) - 2:
            kinds = rng.choice([*names, "relu"], units)
            left[kinds == "relu"] = 0.0
            curves = [
                Curve(activation(str(name)), np.flatnonzero(kinds == name))
                for name in np.unique(kinds)
                if name != "relu"
            ]
        layers.append(Layer(weight, rng.standard_normal(units), left, 1.0, curves))
    return Network(layers)


def damaged(payload: bytes, rng: np.random.Generator) -> bytes:
    """The same bytes, or with some changed, taken out, added, or none but zeros."""
    data, kind = bytearray(payload), rng.integers(6)
    if kind == 1:
        for _ in range(int(rng.integers(1, 8))):
            data[rng.integers(len(data))] = int(rng.integers(256))
    elif kind == 2:
        del data[rng.integers(len(data)) :]
    elif kind == 3:
        data += bytes(rng.integers(0, 256, 20).tolist())
    elif kind == 4:
        data = bytearray(len(data))
    elif kind == 5:
        at = int(rng.integers(len(data)))
        data = data[:at] + bytes(int(rng.integers(1, 9))) + data[at:]
    return bytes(data)


def falsified(first: dict[str, Any], payload: bytes, rng: np.random.Generator) -> bytes:
    """A file that claims what is not true."""
    share = float(rng.choice([1e-9, 1e-6, 1e-3, 0.1]))
    if rng.random() < 0.8:
        upper = first["lower"] * (1 - share)
        entries = {"upper": upper, "lower": upper * float(rng.choice([0.0, 0.5, 1.0]))}
    else:
        lower = first["upper"] * (1 + share)
        entries = {"lower": lower, "upper": lower * 2}
    return gzip.compress(json.dumps(first | entries).encode() + b"\n" + damaged(payload, rng))


def run(count: int, first_seed: int = 0) -> list[str]:
    """Make and check so many false files; what was accepted."""
    accepted, done, seed = [], 0, first_seed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.proof"
        while done < count:
            rng = np.random.default_rng(seed)
            seed += 1
            network = random_network(rng)
            d = network.input_dim
            along = (
                rng.standard_normal((d, int(rng.integers(1, 4)))) if rng.random() < 0.3 else None
            )
            problem = LipschitzProblem(network, Box(-1, 1, d), directions=along)
            result = lipyomo.solve(problem, gap=1e-3, time_limit=5)
            path.unlink(missing_ok=True)
            if result.witness is None or result.lower == 0.0:
                continue
            if not write_proof(path, problem, result, time_limit=5).cases:
                continue
            line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
            first = json.loads(line)
            for n in range(min(EACH, count - done)):
                path.write_bytes(falsified(first, payload, rng))
                done += 1
                try:
                    check_proof(path)
                except ProofError:
                    continue
                accepted.append(f"seed {seed - 1}, file {n}")
    return accepted


if __name__ == "__main__":
    found = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{sys.argv[1]} false files, {len(found)} accepted", *found, sep="\n")
    sys.exit(bool(found))
