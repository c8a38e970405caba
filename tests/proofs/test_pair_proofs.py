"""Boxes with all pairs of a direction and a functional together: bounds, and what is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_box_proofs import random_network

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.proofs import write_proof
from lipyomo.proofs.writing import statement_of
from lipyomo_check import ProofError, check_proof
from lipyomo_check.pairs.proof import confirm, in_arb
from lipyomo_check.pairs.ranges import LEFT, OPEN, RIGHT, units_on
from lipyomo_check.pairs.tree import Asked
from lipyomo_check.statement import read_statement


def asked_of(problem: LipschitzProblem) -> Asked:
    """What a proof of it would be about."""
    first = statement_of(problem, lipyomo.solve(problem, gap=0.5), boxes=True)
    assert first["format"] == "lipyomo-proof-9"
    return Asked.of(read_statement(first))


@pytest.mark.parametrize(
    ("slopes", "norm"), [((0.0, 1.0), "linf"), ((0.7, -0.4), "l1"), ((-0.2, 1.5), "linf")]
)
def test_ranges_and_bounds_hold_what_is_sampled(slopes: tuple[float, float], norm: Any) -> None:
    """With units on sides, too; and a pair is dropped only where nothing sampled is larger."""
    network = random_network([3, 7, 6, 5, 2], 3, *slopes)
    asked = asked_of(LipschitzProblem(network, Box(-1, 1, 3), norm, "l1"))
    rng = np.random.default_rng(0)
    dropped = 0
    for _ in range(60):
        centre, radius = rng.uniform(-1, 1, 3), 2.0 ** rng.uniform(-5, 0)
        x = centre + rng.uniform(-radius, radius, (300, 3))
        h, z_all, J = x, [], np.broadcast_to(np.eye(3), (300, 3, 3))
        for layer in network.hidden:
            z = h @ layer.weight.T + layer.bias
            slope = np.where(z < 0, layer.left, layer.right)
            h, J = z * slope, slope[:, :, None] * (layer.weight @ J)
            z_all.append(z)
        J = network.head.weight @ J
        z = np.hstack(z_all)
        sides = np.full(z.shape[1], OPEN, dtype=np.int8)
        some = rng.integers(z.shape[1], size=2)  # a pattern that a sampled point has
        sides[some] = np.where(z[0, some] < 0, LEFT, RIGHT)
        inside = ((sides == OPEN) | (np.where(z < 0, LEFT, RIGHT) == sides)).all(axis=1)
        low, high = (centre - radius)[None], (centre + radius)[None]
        units = units_on(asked.hidden, low, high, sides[None], asked.gamma)
        for own, part in zip(units, z_all, strict=True):
            assert (own.low[0] <= part[inside] + 1e-12).all()
            assert (part[inside] <= own.high[0] + 1e-12).all()
        values = np.einsum("fm,pmd,qd->pfq", asked.functionals, J[inside], asked.directions)
        cutoff = float(rng.uniform(0.5, 2.5) * np.abs(values).max())
        boxes = asked.first._replace(low=low, high=high, sides=sides[None])
        own_asked = replace(asked, upper=cutoff)
        found = own_asked.bounded(boxes)
        gone = ~found.boxes.live[0]
        dropped += int(gone.sum())
        assert (values.max(axis=0)[gone] <= cutoff * (1 + 1e-12)).all()
        confirm(in_arb(own_asked), boxes, found.boxes)
    assert dropped > 100


def test_a_pair_that_is_not_shown_is_left() -> None:
    """Nothing is dropped below the truth, on the whole domain or where all units are decided."""
    asked = asked_of(LipschitzProblem(random_network([2, 5, 1], 0), Box(-1, 1, 2)))
    point = asked.first._replace(low=np.full((1, 2), 0.3), high=np.full((1, 2), 0.3))
    bounded = replace(asked, upper=0.0).bounded(point)
    value = 0.0
    low, high = 0.0, 100.0
    for _ in range(60):
        value = 0.5 * (low + high)
        left = replace(asked, upper=value).bounded(point).boxes.live.any()
        low, high = (value, high) if left else (low, value)
    network = random_network([2, 5, 1], 0)
    slope = (network.hidden[0].weight @ [0.3, 0.3] + network.hidden[0].bias) > 0
    gradient = (network.head.weight * slope) @ network.hidden[0].weight
    assert value == pytest.approx(np.abs(gradient).sum(), rel=1e-9)
    assert bounded.boxes.live.any()


def test_falsified_files_are_refused(tmp_path: Path) -> None:
    """Codes that are changed, left out or added, and claims that are too low."""
    problem = LipschitzProblem(random_network([2, 8, 8, 2], 4), Box(-1, 1, 2))
    result, path = lipyomo.solve(problem), tmp_path / "a.proof"
    write_proof(path, problem, result, boxes=True)
    assert check_proof(path).upper_proved
    first, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    inner = [k for k, code in enumerate(payload) if code]
    rng, refused = np.random.default_rng(1), 0
    stated = json.loads(first)
    for _ in range(60):
        claim, codes = dict(stated), bytearray(payload)
        kind = int(rng.integers(4))
        if kind == 0:
            codes[int(rng.choice(inner))] = 0
        elif kind == 1:
            del codes[int(rng.integers(len(codes)))]
        elif kind == 2:
            codes.insert(int(rng.integers(len(codes))), 0)
        else:
            claim["upper"] = result.lower * (1 - 10.0 ** rng.uniform(-8, -1))
            claim["lower"] = 0.0
        path.write_bytes(gzip.compress(json.dumps(claim).encode() + b"\n" + bytes(codes)))
        with pytest.raises(ProofError):
            check_proof(path)
        refused += 1
    assert refused == 60
