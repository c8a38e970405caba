"""The checker's arithmetic: every error bound against Arb."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from flint import arb, arb_series, ctx, fmpq

from lipyomo_check.errors import ProofError
from lipyomo_check.smooth.definitions import derivatives_at
from lipyomo_check.smooth.elementary import exp_minus, log_one_plus, normal, sine_and_cosine
from lipyomo_check.smooth.kinds import ERROR, Kind, kind_of, two_slopes
from lipyomo_check.smooth.lines import Samples

NAMES = [
    "tanh",
    "sigmoid",
    "softplus",
    "softplus(3.0)",
    "silu",
    "swish(1.702)",
    "mish",
    "gelu",
    "gelu(tanh)",
    "erf",
    "sin",
    "cos",
    "softsign",
    "hard_swish",
    "elu",
    "elu(0.5)",
    "celu(2.0)",
    "selu(1.6732632423543772, 1.0507009873554805)",
]

DEGENERATE = ["elu(0.0)", "elu(-0.0)", "selu(0.0, 2.0)", "selu(1.5, 0.0)"]
"""Lines, in part or as a whole."""


def sides_of(kind: Kind, at: float) -> tuple[bool, ...]:
    """On which sides of a kind's breaks a number is."""
    return tuple(at > b for b in kind.breaks)


def series(name: str, z: arb, right: bool) -> arb_series:
    """Taylor series of an activation at z, from its definition, on one side of its breaks."""
    x = arb_series([z, 1], prec=6)
    one = arb_series([1], prec=6)
    word, _, rest = name.partition("(")
    numbers = [arb(float(v)) for v in rest[:-1].split(", ")] if rest and rest != "tanh)" else []
    if word in ("elu", "celu", "selu"):
        alpha = numbers[0] if numbers else arb(1)
        gamma = numbers[1] if word == "selu" else arb(1)
        width = alpha if word == "celu" else arb(1)
        return x * gamma if right else ((x / width).exp() - one) * (alpha * gamma)
    if word == "hard_swish":
        inside = bool(z > -3) and bool(z < 3)
        return x * (x + 3) / 6 if inside else (x if right else one * 0)
    beta = numbers[0] if numbers else arb(1)
    y = x * beta
    s = one / ((-y).exp() + 1)
    if word == "tanh":
        return tanh(x)
    if word == "sigmoid":
        return s
    if word == "softplus":
        return (y.exp() + 1).log() / beta
    if word in ("silu", "swish"):
        return x * s
    if word == "mish":
        return x * tanh((x.exp() + 1).log())
    if name == "gelu":
        return x * (one - (x / arb(2).sqrt()).erfc() / 2)
    if name == "gelu(tanh)":
        k = (2 / arb.pi()).sqrt()
        return x * (tanh((x + x * x * x * arb(fmpq(44715, 10**6))) * k) + 1) / 2
    if word == "erf":
        return x.erf()
    if word == "softsign":
        return x / (x + 1) if right else x / (one - x)
    return x.sin() if word == "sin" else x.cos()


def tanh(x: arb_series) -> arb_series:
    e = (x * 2).exp()
    return 1 - arb_series([2], prec=6) / (e + 1)


def samples(kind: Kind, rng: np.random.Generator, count: int) -> np.ndarray:
    size = rng.standard_normal(count) * np.exp(rng.uniform(-30, 3, count))
    near = np.concatenate(
        [[b + s * 10.0**-k for k in range(1, 12) for s in (1, -1)] for b in (0.0, *kind.breaks)]
    )
    return np.concatenate([size, rng.uniform(-12, 12, count), near, [0.0, 1e-300, -1e-300, 5e-324]])


@pytest.mark.parametrize("name", NAMES + DEGENERATE)
def test_derivatives(name: str) -> None:
    kind = kind_of(name)
    z = samples(kind, np.random.default_rng(0), 300)
    found = np.array(kind.derivatives(z, tuple(z > b for b in kind.breaks)))
    worst = np.zeros(4)
    with ctx.workprec(200):
        for k, t in enumerate(z.tolist()):
            truth = series(name, arb(t), t > 0)
            for n, factorial in enumerate((1, 1, 2, 6)):
                allowed = ERROR * kind.scale[n] * (1.0 + abs(t) if n == 0 else 1.0)
                gap = abs(arb(float(found[n, k])) - truth[n] * factorial)
                if gap != 0:
                    worst[n] = max(worst[n], float(gap.upper()) / allowed)
    assert worst.max() < 1 / 16


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_derivatives(name: str) -> None:
    """Proved in Arb where the functions are not flat; beyond, exponentials are below 1e-16."""
    kind = kind_of(name)
    if name in ("sin", "cos") or kind.breaks:  # monotone on both sides: largest at zero
        z = np.concatenate([np.linspace(-9, 9, 2000), [*kind.breaks]])
        for side in (False, True):
            right = tuple(np.where(z == b, side, z > b) for b in kind.breaks)
            _, _, two, three = kind.derivatives(z, right)
            assert np.abs(two).max() <= kind.bounds[0] + ERROR * kind.scale[2]
            assert np.abs(three).max() <= kind.bounds[1] + ERROR * kind.scale[3]
        return
    todo = [(-40.0, 30.0)]
    with ctx.workprec(150):
        while todo:
            low, high = todo.pop()
            centre, radius = (low + high) / 2, (high - low) / 2
            try:  # a derivative is that of the middle, and at most the radius times the next one
                near, over = (
                    series(name, arb(centre), True),
                    series(name, arb(centre, radius), True),
                )
                sizes = [
                    abs(near[n]) * f + abs(over[n + 1]) * (n + 1) * f * radius
                    for n, f in ((2, 2), (3, 6), (4, 24))
                ]
            except ValueError:  # a denominator's ball holds zero
                sizes = [arb(1e9)] * 3
            if all(bool(size <= arb(b)) for size, b in zip(sizes, kind.bounds, strict=True)):
                continue
            assert radius > 1e-6, f"{sizes} near {centre}"
            todo += [(low, centre), (centre, high)]


INNER = {"silu", "swish(1.702)", "mish", "gelu", "gelu(tanh)"}
"""Kinds whose steepest slopes are at numbers that are not known exactly."""


@pytest.mark.parametrize("name", [*NAMES, "elu(-0.5)", "selu(1.5, -2.0)"])
def test_ranges_of_slopes(name: str) -> None:
    """Proved in Arb (up to 1e-9 where an end is a limit, or the slope at 0), and not too large."""
    kind, found = kind_of(name), list[float]()
    room = 0.0 if name in INNER else 1e-9
    low, high = kind.slopes[0] - room, kind.slopes[1] + room
    ends = sorted(kind.breaks)
    todo = list(zip([-40.0, *ends], [*ends, 40.0], strict=True))
    with ctx.workprec(100):
        while todo:
            start, end = todo.pop()
            centre, radius = (start + end) / 2, (end - start) / 2
            sides = sides_of(kind, centre)
            near, over = derivatives_at(name, arb(centre), sides, 3), arb(np.inf)
            with suppress(ValueError):  # a denominator's ball holds zero
                over = abs(derivatives_at(name, arb(centre, radius), sides, 4)[3])
            reach = abs(near[2]) * radius + over * radius**2
            found += [float(derivatives_at(name, arb(z), sides, 2)[1]) for z in (start, end)]
            if near[1] - reach >= arb(low) and near[1] + reach <= arb(high):
                continue
            assert radius > 1e-7, f"{near[1]} at {centre}"
            todo += [(start, centre), (centre, end)]
    assert min(found) <= kind.slopes[0] + 1e-3
    assert max(found) >= kind.slopes[1] - 1e-3


def test_elementary_functions() -> None:
    rng = np.random.default_rng(1)
    with ctx.workprec(200):
        y = np.minimum(np.abs(rng.standard_normal(500)) * np.exp(rng.uniform(-8, 6, 500)), 700.0)
        for a, b in zip(exp_minus(y).tolist(), y.tolist(), strict=True):
            assert abs(arb(a) * arb(b).exp() - 1) < 2.0**-47
        e = np.concatenate([rng.random(200), [0.0, 1e-300, 1.0]])
        for a, b in zip(log_one_plus(e).tolist(), e.tolist(), strict=True):
            assert abs(arb(a) - arb(b).log1p()) < 2.0**-42
        z = np.clip(
            rng.standard_normal(500) * np.exp(rng.uniform(-8, 14, 500)), -(2.0**20), 2.0**20
        )
        for s, c, b in zip(*map(np.ndarray.tolist, sine_and_cosine(z)), z.tolist(), strict=True):
            assert abs(arb(s) - arb(b).sin()) < 2.0**-46
            assert abs(arb(c) - arb(b).cos()) < 2.0**-46
        z = rng.uniform(-12, 12, 500)
        for p, q, b in zip(*map(np.ndarray.tolist, normal(z)), z.tolist(), strict=True):
            assert abs(arb(p) - (-arb(b) / arb(2).sqrt()).erfc() / 2) < 2.0**-46
            assert abs(arb(q) - (-(arb(b) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()) < 2.0**-46
    with pytest.raises(ProofError, match="sine"):
        sine_and_cosine(np.array([1e7]))


@pytest.mark.parametrize("name", [*NAMES, "relu"])
def test_lines_hold_and_are_tight(name: str) -> None:
    rng = np.random.default_rng(2)
    kind = two_slopes(0.0, 1.0) if name == "relu" else kind_of(name)
    for width in (1e3, 10.0, 1.0, 0.1, 1e-3, 1e-6, 0.0):
        count = 60
        low = rng.uniform(-4, 4, count)
        low[:5] = kind.breaks[0] if kind.breaks else 0.0  # intervals that end at a break
        high = low + width * rng.random(count)
        high[5:8] = np.maximum(low[5:8], 0.0)
        A, c = rng.standard_normal((2, count)) * np.array([[1.0], [3.0]])
        A[10:13], c[13:16] = 0.0, 0.0
        s, least, most = Samples.of(kind, low, high).lines(A, c)
        _, plain_least, plain_most = Samples.of(kind, low, high, plain=True).lines(A, c)
        assert (plain_least <= least).all()
        assert (most <= plain_most).all()
        t = np.linspace(0, 1, 101)[1:-1, None] * (high - low) + low
        value, slope, _, _ = kind.derivatives(t, tuple(t > b for b in kind.breaks))
        inside = A * value + c * slope - s * t
        room = 1e-12 * (1 + np.abs(A) * np.abs(t) + np.abs(s * t) + np.abs(c))
        assert (inside >= least - room).all()
        assert (inside <= most + room).all()
        if not kind.breaks and 1e-3 <= width <= 1.0:
            size = (np.abs(A) + np.abs(c)) * (kind.bounds[0] + kind.bounds[1])
            assert ((most - least) <= 0.3 * size * (high - low) ** 2 + 1e-9).all()


@pytest.mark.parametrize("name", NAMES)
def test_definitions_and_functions_agree(name: str) -> None:
    kind = kind_of(name)
    z = np.random.default_rng(3).uniform(-9, 9, 50)
    found = kind.derivatives(z, tuple(z > b for b in kind.breaks))
    for k, t in enumerate(z.tolist()):
        exact = derivatives_at(name, arb(t), sides_of(kind, t), 4)
        for n in range(4):
            assert abs(exact[n] - arb(float(found[n][k]))) < ERROR * kind.scale[n] * 10


def test_unknown_kinds_are_refused() -> None:
    for name in (
        "relu6",
        "elu(nan)",
        "elu(1e9)",
        "elu(1e-9)",
        "softplus(0.0)",
        "swish(0.0)",
        "celu(0.0)",
        "celu(-3.0)",
        "selu",
        "selu(1.0)",
        "tanh(2.0)",
        "elu(1.0",
    ):
        with pytest.raises(ProofError, match="kind"):
            kind_of(name)
