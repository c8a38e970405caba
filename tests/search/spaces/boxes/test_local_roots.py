"""Norms of tokens that the first layer sees, and rows behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import network_of

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation, Relaxed

TOKENS, FEATURES, ROWS = 3, 4, 2


def normalised_tokens(epsilon: float, mixed: bool) -> Network:
    """Tanh units of rows behind the norm of each token, or of sums of such as well."""
    rng = np.random.default_rng(0)
    size = TOKENS * FEATURES
    across = np.eye(TOKENS) + 0.5 * mixed * np.eye(TOKENS)[[1, 0, 2]] * [[1], [1], [0]]
    arrays = {
        "shape": np.array([1, TOKENS, FEATURES]),
        "scale": rng.normal(size=FEATURES),
        "shift": rng.normal(size=FEATURES),
        "flat": np.array([1, size]),
        "weight": np.kron(across, rng.normal(size=(FEATURES, ROWS))),
        "read": rng.normal(size=(TOKENS * ROWS, 1)),
    }
    steps = [
        ("Reshape", "x shape", "t", {}),
        ("LayerNormalization", "t scale shift", "n", {"epsilon": epsilon}),
        ("Reshape", "n flat", "r", {}),
        ("MatMul", "r weight", "m", {}),
        ("Tanh", "m", "p", {}),
        ("MatMul", "p read", "y", {}),
    ]
    return network_of(steps, arrays, size)


def attention(seed: int, degenerate: bool) -> Network:
    """``x + softmax(q k') v`` behind norms of two tokens of three, and tanh units behind its norm.

    Degenerate ones have a key that is zero, two equal queries, and a value that no token moves.
    """
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(3, 3, 3))
    if degenerate:
        k[:, 0] = v[:, 1] = 0.0
        q[:, 1] = q[:, 2]
    arrays = {
        "shape": np.array([1, 2, 3]),
        "scale": rng.normal(size=3),
        "shift": rng.normal(size=3),
        "flat": np.array([1, 6]),
        "Q": q,
        "K": k,
        "V": v,
        "read": rng.normal(size=(6, 1)),
    }
    steps = [
        ("Reshape", "x shape", "t", {}),
        ("LayerNormalization", "t scale shift", "n", {"epsilon": 0.1}),
        ("MatMul", "n Q", "q", {}),
        ("MatMul", "n K", "k", {}),
        ("MatMul", "n V", "v", {}),
        ("Transpose", "k", "c", {"perm": [0, 2, 1]}),
        ("MatMul", "q c", "s", {}),
        ("Softmax", "s", "w", {"axis": -1}),
        ("MatMul", "w v", "o", {}),
        ("Add", "t o", "h", {}),
        ("LayerNormalization", "h scale shift", "m", {"epsilon": 0.1}),
        ("Tanh", "m", "p", {}),
        ("Reshape", "p flat", "r", {}),
        ("MatMul", "r read", "y", {}),
    ]
    return network_of(steps, arrays, 6)


def context_of(epsilon: float, mixed: bool = False) -> BoxContext:
    size = TOKENS * FEATURES
    domain = Box(np.full(size, -1.0), np.full(size, 1.0))
    return BoxContext.of(
        BoxQuestion(LipschitzProblem(normalised_tokens(epsilon, mixed), domain, "linf"))
    )


def test_rows_have_a_part_for_each_token() -> None:
    """Each part sees the inputs of its token."""
    for mixed, count in ((False, TOKENS), (True, TOKENS + 2)):
        found = context_of(0.1, mixed).structure.local_roots
        assert found is not None
        assert found.x.columns.shape[1] == FEATURES
        (behind,) = found.behind
        assert behind.which.size == TOKENS * ROWS
        assert behind.group.size == count * ROWS


def hold(
    context: BoxContext, found: Relaxation, h: np.ndarray, t: np.ndarray
) -> tuple[Relaxed, np.ndarray, np.ndarray]:
    """Check all layers' ranges at points and directions; the last layer, and its z and u."""
    for stage, layer in zip(context.stages, found.layers, strict=True):
        z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
        room = 1e-9 * (1.0 + abs(z).max(axis=0)), 1e-9 * (1.0 + abs(u).max(axis=0))
        assert (z >= layer.low - room[0]).all()
        assert (z <= layer.high + room[0]).all()
        assert (abs(u - layer.tangent) <= layer.tangent_radius + room[1]).all()
        t, h = stage.sums(stage.slopes(z) * stage.own(u)), stage.outputs(z)
    return layer, z, u


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_points_are_within_ranges(epsilon: float, moving: bool, mixed: bool) -> None:
    """And for decided directions these are near what points reach."""
    context, rng = context_of(epsilon, mixed), np.random.default_rng(1)
    d, count = TOKENS * FEATURES, 30
    half = 10.0 ** rng.uniform(-2.0, -0.5, size=(count, 1))
    middle = rng.uniform(-0.6, 0.6, size=(count, d))
    signs = rng.choice([-1.0, 1.0], size=(2, count, d))
    v_low, v_high = signs.min(axis=0), signs.max(axis=0) if moving else signs.min(axis=0)
    boxes = Boxes.over(context, middle - half, middle + half)
    found = relaxed(context, replace(boxes, v_low=v_low, v_high=v_high), (v_low, v_high))
    shares = rng.uniform(-1.0, 1.0, size=(800, 1, d))
    shares[:400] = np.sign(shares[:400])
    h = middle + half * shares
    t = v_low + (v_high - v_low) * rng.uniform(0.0, 1.0, size=h.shape)
    layer, z, u = hold(context, found, h, t)
    if not moving:
        narrow = np.flatnonzero(half < 0.03)
        assert narrow.size
        wide = (layer.high - layer.low)[narrow] / np.ptp(z, axis=0)[narrow]
        reached = np.ptp(u, axis=0)[narrow]  # of a token that moves as one nothing turns
        some = reached > 1e-6
        turns = 2.0 * layer.tangent_radius[narrow][some] / reached[some]
        assert np.median(wide) < 1.5
        assert np.median(turns) < 1.7


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("degenerate", [False, True])
def test_points_are_within_ranges_behind_attention(seed: int, degenerate: bool) -> None:
    """Rows of later layers that are sums of quotients are there, and inputs that are held."""
    problem = LipschitzProblem(attention(seed, degenerate), Box(np.full(6, -1.0), np.ones(6)))
    context, rng = BoxContext.of(BoxQuestion(problem)), np.random.default_rng(seed)
    local = context.structure.local_roots
    assert local is not None
    assert len(local.behind) >= 1
    assert max(np.bincount(behind.row).max() for behind in local.behind) == 2
    count = 30
    half = 10.0 ** rng.uniform(-2.0, -0.3, size=(count, 1)) * (rng.random((count, 6)) < 0.8)
    middle = rng.uniform(-0.5, 0.5, size=(count, 6))
    v_low, v_high = np.sort(rng.choice([-1.0, 1.0], size=(2, count, 6)), axis=0)
    v_low[:10] = v_high[:10]
    boxes = Boxes.over(context, middle - half, middle + half)
    found = relaxed(context, replace(boxes, v_low=v_low, v_high=v_high), (v_low, v_high))
    shares = rng.uniform(-1.0, 1.0, size=(800, 1, 6))
    shares[:400] = np.sign(shares[:400])
    h = middle + half * shares
    t = v_low + (v_high - v_low) * rng.uniform(0.0, 1.0, size=h.shape)
    hold(context, found, h, t)
