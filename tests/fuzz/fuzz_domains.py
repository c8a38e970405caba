"""Domains and norms for hostile networks, each for the package and for the oracle."""

from __future__ import annotations

from itertools import product

import numpy as np
from fuzz_networks import Rng, integers
from fuzz_oracle import PlainDomain

import lipyomo
from lipyomo import AllSpace, Box, Polytope, ball


def domain_of(rng: Rng, d: int) -> tuple[lipyomo.Domain, PlainDomain]:
    """A domain of one of the kinds, for both sides."""
    none = (np.zeros((0, d)), np.zeros(0))
    kind = rng.choice(
        ["unit", "unit", "box", "thin", "far", "frozen", "l1", "l2", "polytope", "all", "slab"]
    )
    low, high = -np.ones(d), np.ones(d)
    if kind in ("box", "frozen"):
        low = np.round(rng.uniform(-2, 0.5, d), int(rng.integers(0, 3)))
        high = low + np.round(rng.uniform(0.5, 2, d), 1)
        if kind == "frozen" and d > 1:
            frozen = int(rng.integers(0, d))
            low[frozen] = high[frozen] = rng.choice([0.1, 0.3, 1.0, 0.0])
    elif kind == "thin":
        low = rng.uniform(-1, 1, d)
        high = low + 10.0 ** rng.integers(-12, 0)
    elif kind == "far":
        low = rng.choice([1e3, 1e6]) * np.ones(d)
        high = low + rng.choice([1e-3, 1.0])
    elif kind == "slab":
        low, high = -np.full(d, np.inf), np.full(d, np.inf)
        low[0], high[0] = -1.0, 1.0
    elif kind == "all":
        low, high = -np.full(d, np.inf), np.full(d, np.inf)
    if kind in ("l1", "l2"):
        center = rng.integers(-1, 2, d).astype(float)
        radius = float(rng.choice([0.5, 1.0, 2.0]))
        clip = (-1.5, 1.5) if rng.random() < 0.4 else None
        body = ball(center, radius, str(kind), clip)
        ends = (
            (-np.full(d, np.inf), np.full(d, np.inf))
            if clip is None
            else (np.full(d, -1.5), np.full(d, 1.5))
        )
        return body, PlainDomain(*ends, *none, (str(kind), center, radius))
    if kind == "polytope":
        count = int(rng.integers(1, 4))
        A = integers(rng, (count, d))
        A[~A.any(axis=1)] = 1.0
        b = rng.integers(1, 3, count).astype(float)
        if rng.random() < 0.3:  # thin: two rows that leave a gap of little width
            A = np.vstack([A[0], -A[0]])
            b = np.array([1.0 + 10.0 ** rng.integers(-10, -1), -1.0])
        low, high = -2 * np.ones(d), 2 * np.ones(d)
        return Polytope(A, b, low, high), PlainDomain(low, high, A, b)
    if kind == "all":
        return AllSpace(d), PlainDomain(low, high, *none)
    return Box(low, high), PlainDomain(low, high, *none)


def norms_of(rng: Rng, m: int) -> tuple[str, dict[str, object], list[np.ndarray] | None]:
    """An input norm, the problem's keywords for the outputs, and the dual vertices."""
    input_norm = str(rng.choice(["linf", "linf", "l1", "l2"]))
    kind = rng.choice(["functional", "linf", "l1", "l2", "cross", "cross(0)"])
    eye = np.eye(m)
    if kind == "functional":
        c = rng.choice([1.0, -1.0, 2.0, 0.3, 0.0], m)
        if not c.any():
            c[0] = 1.0
        return input_norm, {"functional": c}, [c]
    if kind == "linf":
        return input_norm, {"output_norm": "linf"}, list(eye)
    if kind == "l1":
        return (
            input_norm,
            {"output_norm": "l1"},
            [np.array(s, float) for s in product((-1, 1), repeat=m)],
        )
    if kind == "l2" or m < 2:
        return input_norm, {"output_norm": "l2"}, None
    if kind == "cross":
        pairs = [eye[i] - eye[j] for i in range(m) for j in range(m) if i != j]
        return input_norm, {"output_norm": "cross"}, [*eye, *pairs]
    return (
        input_norm,
        {"output_norm": "cross(0)"},
        [eye[0], *(eye[0] - eye[j] for j in range(1, m))],
    )
