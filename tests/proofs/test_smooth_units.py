"""The checker's arithmetic: every error bound against Arb."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from flint import arb, arb_series, ctx, fmpq

from lipyomo_check.errors import ProofError
from lipyomo_check.smooth.definitions import derivatives_at
from lipyomo_check.smooth.elementary import exp_minus, log_one_plus, normal, sine_and_cosine
from lipyomo_check.smooth.kind import ERROR, Kind
from lipyomo_check.smooth.kinds import kind_of, two_slopes
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

DERIVATIVES = [
    base + "'" * order for base in ("tanh", "erf", "gelu", "silu") for order in (1, 2, 3)
]
NAMES += DERIVATIVES

POWERS = ["square", "sqrt", "rsqrt", "reciprocal", "pow(3.0)", "pow(1.5)", "pow(-2.0)", "pow(-7.5)"]
UNBOUNDED = [*POWERS, "exp", "log"]
"""Kinds with bounds on intervals only."""

DEGENERATE = ["elu(0.0)", "elu(-0.0)", "selu(0.0, 2.0)", "selu(1.5, 0.0)"]
"""Lines, in part or as a whole."""


def sides_of(kind: Kind, at: float) -> tuple[bool, ...]:
    """On which sides of a kind's breaks a number is."""
    return tuple(at > b for b in kind.breaks)


def series(name: str, z: arb, right: bool) -> arb_series:
    """Taylor series of an activation at z, from its definition, on one side of its breaks."""
    base = name.rstrip("'")
    found = series_of(base, z, right, 6 + len(name) - len(base))
    for _ in range(len(name) - len(base)):
        found = found.derivative()
    return found


def series_of(name: str, z: arb, right: bool, prec: int) -> arb_series:
    """The same with so many terms."""
    x = arb_series([z, 1], prec=prec)
    one = arb_series([1], prec=prec)
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
    return 1 - 2 / (e + 1)


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


INNER = {"silu", "swish(1.702)", "mish", "gelu", "gelu(tanh)", *DERIVATIVES}
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


def at(name: str, z: arb) -> list[arb]:
    """Value and three derivatives, by formulas that the checker does not use."""
    if name == "exp":
        return [z.exp()] * 4
    if name == "log":
        return [z.log(), 1 / z, -1 / z**2, 2 / z**3]
    words = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
    p, found, factor = words.get(name) or float(name[4:-1]), [], arb(1)
    for k in range(4):
        power = abs(z) ** arb(p - k)
        if p == int(p) and int(p - k) % 2 and z < 0:
            power = -power
        found.append(factor * power)
        factor *= p - k
    return found


@pytest.mark.parametrize("name", UNBOUNDED)
def test_kinds_with_bounds_on_intervals(name: str) -> None:
    """Values and derivatives in Arb, what holds them on intervals, and lines."""
    rng, kind, both = np.random.default_rng(4), kind_of(name), name in ("square", "reciprocal")
    assert kind.inside is not None
    z = rng.uniform(0.5, 2.0, 200) * np.exp(rng.uniform(-9, 3, 200))
    z = np.where(rng.random(200) < 0.5, z, -z) if both or name == "exp" else z
    found = np.array(kind.derivatives(z, ()))
    with ctx.workprec(200):
        for k, t in enumerate(z.tolist()):
            for n, truth in enumerate(at(name, arb(t))):
                allowed = ERROR * (kind.scale[n] + abs(found[n, k])) / 16
                assert abs(arb(float(found[n, k])) - truth) <= allowed
    for width in (3.0, 0.5, 1e-2, 1e-6, 0.0):
        low, wide = z[:60], width * np.abs(z[:60])
        low = np.where(low < 0.0, low - wide, low)
        high = low + wide * (rng.random(60) if width < 3 else 1.0)
        if name == "square":
            low[:10], high[:10] = -np.abs(low[:10]), 2.0 * np.abs(low[:10])
        assert kind.inside(low, high).all()
        one = Samples.of(kind, low, high)
        t = low + np.linspace(0, 1, 41)[:, None] * (high - low)
        values = kind.derivatives(t, ())
        least, most = one.outputs()
        room = 1e-13 * (1 + np.abs(values[0]))
        assert ((values[0] >= least - room) & (values[0] <= most + room)).all()
        A, c = rng.standard_normal((2, 60))
        s, below, above = one.lines(A, c)
        inside = A * values[0] + c * values[1] - s * t
        size = np.abs(A * values[0]) + np.abs(c * values[1]) + np.abs(s * t)
        assert (inside >= below - 1e-13 * (1 + size)).all()
        assert (inside <= above + 1e-13 * (1 + size)).all()
        if width == 1e-2:
            assert ((above - below) <= 0.1 * size.max(axis=0) + 1e-9)[10:].all()


@pytest.mark.parametrize("name", UNBOUNDED)
def test_singular_intervals_have_no_bounds(name: str) -> None:
    kind = kind_of(name)
    assert kind.inside is not None
    low = np.array([-1.0, 0.0, -2.0, -1e-300, -np.inf, np.nan, 0.5])
    high = np.array([1.0, 1.0, 0.0, 1e-300, 1.0, 1.0, np.inf])
    with np.errstate(all="ignore"):
        below, above = Samples.of(kind, low, high).extremes(0.0, 1.0)
    everywhere = {"square", "pow(3.0)", "exp"}
    some = np.arange(7) if name not in everywhere else np.array([4, 5, 6])
    assert not (np.isfinite(below) & np.isfinite(above))[some].any()


@pytest.mark.parametrize("name", ["square", "rsqrt", "pow(-2.0)", "exp", "log", "pow(3.0)"])
def test_definitions_of_powers_agree(name: str) -> None:
    for z in (0.3, 1.0, 2.5):
        exact = derivatives_at(name, arb(z), (), 4)
        for own, truth in zip(exact, at(name, arb(z)), strict=True):
            assert abs(own - truth) < 1e-10


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


def test_what_is_no_number_stays_none() -> None:
    """Boxes whose ranges overflow have no bounds, and end no check."""
    with np.errstate(invalid="ignore"):
        for found in (*normal(np.array([np.nan])), exp_minus(np.array([np.nan]))):
            assert np.isnan(found).all()
    assert not any(one.is_finite() for one in derivatives_at("silu", arb(-1e308), (), 2))


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
        "pow",
        "pow(0.3)",
        "pow(1.0)",
        "pow(9.0)",
        "sin'",
        "tanh" + "'" * 4,
        "square'",
    ):
        with pytest.raises(ProofError, match="kind"):
            kind_of(name)
