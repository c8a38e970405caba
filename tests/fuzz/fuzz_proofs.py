"""False proofs: ``python tests/fuzz/fuzz_proofs.py COUNT [FIRST]``.

Each file claims an upper end below the constant, or a lower end above it, with the cases of a true
proof or with damaged ones.  The checker has to reject all of them, and to confirm the true ones.
Every third network has no smooth units; norms, domains and directions are any.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lipyomo
from lipyomo import AllSpace, Box, LipschitzProblem, Polytope, ball
from lipyomo.networks.activations import activation, activations
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.proofs import write_proof
from lipyomo_check import ProofError, check_proof
from lipyomo_check.formats import DIRECTED_FORMAT, FORMAT

EACH = 50
"""False files of a network."""

FEW = 50
"""True proofs of at most so many cases are checked in ball arithmetic as well."""


def random_network(rng: np.random.Generator, smooth: bool = True) -> Network:
    """One to three inputs, one or two hidden layers, any activations, ReLUs among them."""
    names = [name for name in activations() if name != "two_slope"] if smooth else []
    outputs = int(rng.integers(1, 3))
    sizes = [int(rng.integers(1, 4)), *rng.integers(2, 6, rng.integers(1, 3)).tolist(), outputs]
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


def random_problem(rng: np.random.Generator, smooth: bool) -> LipschitzProblem:
    """A network with a box, a ball or a half-space, norms, and perhaps directions."""
    network = random_network(rng, smooth)
    d = network.input_dim
    domain: Domain = Box(-1, 1, d)
    if rng.random() < 0.2:
        domain = ball(rng.uniform(-0.5, 0.5, d), 0.5, str(rng.choice(["l1", "l2"])))
    elif rng.random() < 0.2:
        domain = Polytope(rng.standard_normal((1, d)), [0.25], -1, 1)
    elif rng.random() < 0.2:
        domain = AllSpace(d)
    along = rng.standard_normal((d, int(rng.integers(1, 4)))) if rng.random() < 0.3 else None
    norms = str(rng.choice(["linf", "l1", "l2"])), str(rng.choice(["linf", "l1", "l2"]))
    return LipschitzProblem(network, domain, *norms, directions=along)


def damaged_steps(payload: bytes, rng: np.random.Generator) -> bytes:
    """Lines of cases with a number changed, a step left out, or two lines exchanged."""
    lines = [json.loads(line) for line in payload.splitlines()]
    at, kind = int(rng.integers(len(lines))), rng.integers(4)
    if kind == 1:
        other = int(rng.integers(len(lines)))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 2 and len(lines[at]) > 1:
        del lines[at][int(rng.integers(len(lines[at])))]
    elif kind == 3:
        place: Any = lines[at]
        inner = place
        while isinstance(inner, list) and inner:
            place, k = inner, int(rng.integers(len(inner)))
            inner = place[k]
        if isinstance(inner, int | float):
            place[k] = type(inner)(inner * float(rng.choice([0.0, -1.0, 0.5, 2.0])))
        elif inner in ("L", "R"):
            place[k] = "L" if inner == "R" else "R"
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


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
    false = false_values if first.get("question") == "values" else false_constant
    boxes = first["format"] not in (FORMAT, DIRECTED_FORMAT) and "slopes" not in first
    cases = damaged(payload, rng) if boxes or rng.random() < 0.3 else damaged_steps(payload, rng)
    return gzip.compress(json.dumps(first | false(first, rng)).encode() + b"\n" + cases)


def false_constant(first: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Ends of an interval in which the constant does not lie."""
    share = float(rng.choice([1e-9, 1e-6, 1e-3, 0.1]))
    if rng.random() < 0.8:
        upper = first["lower"] * (1 - share)
        return {"upper": upper, "lower": upper * float(rng.choice([0.0, 0.5, 1.0]))}
    lower = first["upper"] * (1 + share)
    return {"lower": lower, "upper": lower * 2}


def false_values(first: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Ends of intervals, in one of which the largest value of a functional does not lie."""
    lower, upper = list(first["lower"]), list(first["upper"])
    k = int(rng.integers(len(lower)))
    off = float(rng.choice([1e-6, 1e-3, 0.1])) * max(1.0, abs(lower[k]), abs(upper[k]))
    if rng.random() < 0.8:
        upper[k] = lower[k] - off
        lower[k] = upper[k] - float(rng.choice([0.0, 1.0, 100.0]))
    else:
        lower[k] = upper[k] + off
        upper[k] = lower[k] + 1.0
    return {"lower": lower, "upper": upper}


Proving = Callable[[np.random.Generator, int, Path], bool]
"""From a generator and a number to a true proof in a file; False where there is none."""

Files = Callable[[dict[str, Any], bytes, np.random.Generator], bytes]
"""From a true statement and its cases to a file that claims what is not true."""


def prove_constant(problem: LipschitzProblem, path: Path, boxes: bool | None = None) -> bool:
    """Write the proof of a constant that is not zero."""
    result = lipyomo.solve(problem, gap=1e-3, time_limit=5)
    if result.witness is None or result.lower == 0.0:
        return False
    return write_proof(path, problem, result, time_limit=5, boxes=boxes).cases > 0


def of_any_units(rng: np.random.Generator, seed: int, path: Path) -> bool:
    """Every third one without smooth units, half of these in boxes where they can be."""
    problem = random_problem(rng, smooth=seed % 3 > 0)
    return prove_constant(problem, path, seed % 2 > 0 and problem.domain.is_bounded)


def run(
    count: int,
    first_seed: int = 0,
    prove: Proving = of_any_units,
    files: Files = falsified,
    each: int = EACH,
) -> list[str]:
    """Make and check so many false files, `each` of a true one; what was checked wrongly."""
    wrong, done, seed = [], 0, first_seed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.proof"
        while done < count:
            rng = np.random.default_rng(seed)
            path.unlink(missing_ok=True)
            seed += 1
            if not prove(rng, seed - 1, path):
                continue
            try:
                if check_proof(path).nodes <= FEW:
                    check_proof(path, strict=True)
            except ProofError as error:
                wrong.append(f"seed {seed - 1}, the true file: {error}")
            line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
            first = json.loads(line)
            for n in range(min(each, count - done)):
                path.write_bytes(files(first, payload, rng))
                done += 1
                try:
                    check_proof(path)
                except ProofError:
                    continue
                wrong.append(f"seed {seed - 1}, file {n}: accepted")
    return wrong


if __name__ == "__main__":
    found = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{sys.argv[1]} false files, {len(found)} faults", *found, sep="\n")
    sys.exit(bool(found))
