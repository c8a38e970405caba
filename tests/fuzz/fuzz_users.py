"""What users touch besides `solve`: certificates, trends, Pyomo blocks, proofs, sweeps, settings.

Every function draws one case and returns the promises that were broken, in words.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
from flint import arb, fmpq
from fuzz_cli import command_line
from fuzz_composed import COMPOSED
from fuzz_families import FAMILIES, Sample, draw
from fuzz_judge import faults
from fuzz_networks import Rng, chain, decimal, faces, normals, plain, ties
from fuzz_oracle import Oracle, PlainDomain, PlainLayer, exact
from fuzz_thin import linear_norms
from smooth_networks import box_of

import lipyomo
from lipyomo import (
    Box,
    Layer,
    LipschitzProblem,
    LipyomoError,
    Network,
    Status,
    largest_value,
    value_range,
)
from lipyomo.analyses.certification import (
    RobustnessVerdict,
    Trend,
    certify_robustness,
    check_monotone,
)
from lipyomo.blocks import LipschitzBlock, UpperLipschitzBlock
from lipyomo.proofs import write_proof
from lipyomo.solvers import solve_model
from lipyomo_check import ProofError, check_proof

SMALL = 1e-6


def _network(rng: Rng, outputs: int | None = None) -> tuple[Network, list[PlainLayer]]:
    """A small network, and its layers for the oracle."""
    layers = [plain, ties, decimal, faces][int(rng.integers(0, 4))](rng)
    m = len(layers[-1].bias)
    if outputs is not None and m != outputs:
        head = layers[-1]
        layers[-1] = chain(
            rng, (head.weight.shape[1], outputs), normals, lambda r, k: normals(r, (k,))
        )[0]
    return Network([Layer(v.weight, v.bias, v.left, v.right) for v in layers]), layers


def _box(low: np.ndarray, high: np.ndarray) -> PlainDomain:
    return PlainDomain(low, high, np.zeros((0, len(low))), np.zeros(0))


def _value(layers: list[PlainLayer], point: list[float]) -> list[Fraction]:
    """Outputs at a point, in fractions."""
    h = [Fraction(v) for v in point]
    for layer in layers:
        z = [
            sum((Fraction(w) * v for w, v in zip(row, h, strict=True)), Fraction(bias))
            for row, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        ]
        slopes = [(low, high) for low, high in zip(layer.left, layer.right, strict=True)]
        h = [Fraction(float(pair[v >= 0])) * v for v, pair in zip(z, slopes, strict=True)]
    return h


def _within(x: np.ndarray, radius: float, norm: str, clip: float) -> PlainDomain:
    """A polyhedron inside the ball: the ball itself for l1 and linf but for the last digit."""
    low, high = np.full(len(x), -clip), np.full(len(x), clip)
    if norm != "linf":  # the l1 ball lies inside the l2 ball
        return PlainDomain(low, high, np.zeros((0, len(x))), np.zeros(0), ("l1", x, radius))
    inner = np.nextafter(x - radius, np.inf), np.nextafter(x + radius, -np.inf)
    return _box(np.maximum(low, inner[0]), np.minimum(high, inner[1]))


def _least(layers: list[PlainLayer], domain: PlainDomain, label: int) -> fmpq:
    """The least margin of a class over a polyhedron."""
    oracle, classes = Oracle(layers, domain, "linf", None), range(len(layers[-1].bias))
    margins = ([fmpq(int(i == label) - int(i == j)) for i in classes] for j in classes)
    return min(oracle.least(margin) for margin in margins if any(margin))


def certify(rng: Rng) -> list[str]:
    """Verdicts and radii of a classifier against the least margins in exact arithmetic."""
    network, layers = _network(rng, int(rng.integers(2, 4)))
    norm, clip = str(rng.choice(["linf", "linf", "l1", "l2"])), 2.0
    radius = float(rng.choice([0.01, 0.1, 0.3, 1.0]))
    points = np.round(rng.uniform(-1, 1, (2, network.input_dim)), int(rng.integers(0, 4)))
    decide = bool(rng.random() < 0.3) and norm != "l2"
    report = certify_robustness(
        network, points, radius=radius, norm=norm, clip=(-clip, clip), time_limit=5, workers=1,
        exact=decide,
    )  # fmt: skip
    wrong = []
    for row, x in zip(report.rows, points, strict=True):
        if row.error is not None or row.predicted is None:
            continue
        values = _value(layers, x.tolist())
        label, rivals = row.predicted, [j for j in range(len(values)) if j != row.predicted]
        if values[label] != max(values):
            wrong.append(f"predicted {label} of {values}")
        asked, known = (_within(x, r, norm, clip) for r in (radius, row.certified_radius))
        if row.verdict is RobustnessVerdict.ROBUST and _least(layers, asked, label) < 0:
            wrong.append(f"robust at {x} within {radius} of {norm}, but not")
        if row.certified_radius > 0 and _least(layers, known, label) < 0:
            wrong.append(f"certified radius {row.certified_radius} at {x} is above the truth")
        if row.certified_radius > row.adversarial_radius:
            wrong.append(f"certified {row.certified_radius} > found {row.adversarial_radius}")
        if row.example is not None:
            there = _value(layers, row.example)
            step = [abs(Fraction(a) - Fraction(b)) for a, b in zip(row.example, x, strict=True)]
            size = {"linf": max(step), "l1": sum(step)}.get(norm)
            if size is None:
                far = sum(v * v for v in step) > Fraction(row.adversarial_radius) ** 2
            else:
                far = size > Fraction(row.adversarial_radius)
            if far:
                wrong.append(f"the example {row.example} is farther than {row.adversarial_radius}")
            if there[label] > max(there[j] for j in rivals):
                wrong.append(f"the example {row.example} at {x} keeps its class")
            if max(abs(v) for v in row.example) > clip:
                wrong.append("the example is outside the box of valid inputs")
        if row.verdict is RobustnessVerdict.NOT_ROBUST and not row.adversarial_radius <= radius:
            wrong.append(f"refuted without an example within {radius}")
        nearly = row.adversarial_radius * (1.0 - 3e-6)
        asks = decide and row.seconds < 4 and 0 < row.certified_radius < nearly < 4 * clip
        if asks and _least(layers, _within(x, nearly, norm, clip), label) > 0:  # there is no tie
            wrong.append(f"{row.certified_radius} < {row.adversarial_radius} at {x} is not closed")
    return wrong


def ranges(rng: Rng) -> list[str]:
    """Ranges of values of hostile networks against the least values in exact arithmetic."""
    sample = draw(str(rng.choice(FAMILIES)), int(rng.integers(0, 10**6)))
    problem, oracle = sample.problem, sample.oracle
    network, domain = problem.network, problem.domain
    if not isinstance(oracle, Oracle) or not domain.is_bounded:
        return []
    row = rng.integers(-2, 3, network.output_dim).astype(float)
    found = value_range(network, domain, row, time_limit=5)
    wrong = []
    values = network.forward(domain.sample(rng, 200)) @ row
    sizes = np.abs(np.concatenate([values, [found.low[1], found.high[0]]]))
    room = 1e-9 * (1.0 + float(sizes.max()))  # values of differences may be rounding alone
    if found.low[0] > values.min() + room or found.high[1] < values.max() - room:
        wrong.append(f"{sample}: a value is outside {found}")
    for x, end, sign in zip(found.witnesses, (found.low[1], found.high[0]), (1, -1), strict=True):
        if x is None:
            continue
        there = sum(Fraction(c) * v for c, v in zip(row, _value(oracle.layers, x.x), strict=True))
        if sign * Fraction(end) < sign * there:
            wrong.append(f"{sample}: {end} is not attained at {x}")
        if not (domain.frozen.any() or domain.holds(x.point)):  # frozen values may be rounded ones
            wrong.append(f"{sample}: the witness {x} is outside")
    if found.status is Status.INTERRUPTED or (found.status is not Status.EXACT and found.is_exact):
        wrong.append(f"{sample}: {found} says something else than its ends")
    if oracle.domain.ball is not None and oracle.domain.ball[0] == "l2":
        return wrong
    for sign, (near, far) in ((1, found.low), (-1, (-found.high[1], -found.high[0]))):
        truth = oracle.least([sign * exact(c) for c in row.tolist()])
        if not exact(near) <= truth <= exact(far):
            wrong.append(f"{sample}: {near} <= {float(truth.p) / float(truth.q)} <= {far} fails")
    return wrong


def monotone(rng: Rng) -> list[str]:
    """Trends against the least slope in exact arithmetic."""
    network, layers = _network(rng, 1)
    d, radius = network.input_dim, float(rng.choice([0.1, 0.5]))
    points = np.round(rng.uniform(-1, 1, (2, d)), int(rng.integers(0, 3)))
    up = [0] if d == 1 or rng.random() < 0.5 else [0, 1]
    down = [] if rng.random() < 0.5 else [j for j in range(d) if j not in up]
    report = check_monotone(
        network, points, radius, up, down, workers=1, time_limit=5, tolerance=0.0
    )
    wrong = []
    for row in report.rows:
        if row.error is not None:
            continue
        x, sign = points[row.row], 1 if row.wanted == "increasing" else -1
        outer = _box(np.nextafter(x - radius, -np.inf), np.nextafter(x + radius, np.inf))
        oracle = Oracle(layers, outer, "linf", None)
        slopes = [sign * rows[0][row.input] for rows, _ in oracle.pieces()]
        least = min(slopes)
        size = max((abs(v) for v in slopes), default=fmpq(0))
        room = fmpq(1, 10**9) * size
        low, high = row.slope_lower, row.slope_upper
        if low is not None and np.isfinite(low) and exact(low) > least:
            wrong.append(f"slope_lower {low} above {float(arb(least))}")
        if high is not None and np.isfinite(high) and exact(high) < least - room:
            wrong.append(f"slope_upper {high} below {float(arb(least))}")
        if row.verdict is Trend.MONOTONE and least < -room:
            wrong.append(f"monotone, but a slope is {float(arb(least))}")
        if row.verdict is Trend.NOT_MONOTONE:
            if least >= 0:
                wrong.append(f"not monotone, but the least slope is {float(arb(least))}")
            if row.point is not None and row.other is not None:
                rise = sign * (_value(layers, row.other)[0] - _value(layers, row.point)[0])
                moved = [j for j in range(d) if row.point[j] != row.other[j]]
                if rise >= 0 or moved != [row.input] or row.other[moved[0]] < row.point[moved[0]]:
                    wrong.append(f"the pair {row.point}, {row.other} shows nothing")
    return wrong


def blocks(rng: Rng) -> list[str]:
    """Optima of embedded constants against the oracle, with HiGHS."""
    network, layers = _network(rng)
    d, m = network.input_dim, network.output_dim
    norm = str(rng.choice(["linf", "l1"]))
    output = str(rng.choice(["linf", "l1", "cross"])) if m > 1 else "linf"
    functionals = {
        "linf": list(np.eye(m)),
        "l1": [np.array(s, float) for s in np.ndindex(*[2] * m)],
        "cross": [*np.eye(m), *(np.eye(m)[i] - np.eye(m)[j] for i in range(m) for j in range(i))],
    }[output]
    if output == "l1":
        functionals = [2.0 * v - 1.0 for v in functionals]
    truth = float(Oracle(layers, _box(-np.ones(d), np.ones(d)), norm, functionals).constant().mid())
    wrong = []
    model = pyo.ConcreteModel()
    model.steep = LipschitzBlock()
    model.steep.build_formulation(network, domain=Box(-1, 1, d), norm=norm, output_norm=output)
    model.goal = pyo.Objective(expr=model.steep.value, sense=pyo.maximize)
    outcome = solve_model(model, "highs")
    if outcome.status.proven:
        outcome.load()
        if outcome.incumbent < truth - SMALL * (1.0 + truth):
            wrong.append(f"block {norm} {output} {outcome.incumbent} below {truth}")
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(d), bounds=(-1, 1))
    radius = float(rng.choice([0.0, 0.2, 1.0]))
    model.calm = UpperLipschitzBlock()
    model.calm.build_formulation(
        network, inputs=model.x, radius=radius, norm=norm, output_norm=output
    )
    center = np.zeros(d) if radius == 1.0 else np.round(rng.uniform(-0.8, 0.8, d), 3)
    for j in range(d):
        model.x[j].fix(center[j])
    model.goal = pyo.Objective(expr=model.calm.value)
    outcome = solve_model(model, "highs")
    if outcome.status.proven and radius > 0:
        outcome.load()
        around = _box(center - radius, center + radius)
        local = float(Oracle(layers, around, norm, functionals).constant().mid())
        if outcome.incumbent < local - SMALL * (1.0 + local):
            wrong.append(f"upper block {norm} {output} {outcome.incumbent} below {local}")
    return wrong


def _sample(rng: Rng) -> tuple[Sample, arb]:
    """A problem that the package takes and the oracle finishes."""
    families = ["plain", "ties", "duplicates", "faces", "decimal", "cancelling", "residual"]
    for _ in range(50):
        try:
            found = draw(str(rng.choice(families)), int(rng.integers(0, 10**9)))
            return found, found.oracle.constant()
        except (LipyomoError, OverflowError):
            continue
    raise OverflowError("no problem was found")


def proofs(rng: Rng, tries: int = 30) -> list[str]:
    """A true proof is accepted; with a false end it is not, whatever else is changed."""
    sample, truth = _sample(rng)
    result = lipyomo.solve(sample.problem, time_limit=10)
    if result.status is not Status.EXACT:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.gz"
        write_proof(path, sample.problem, result)
        wrong = _checked(path, truth, sample)
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        for _ in range(tries):
            path.write_bytes(_changed(rng, lines, truth))
            wrong += _checked(path, truth, sample, changed=True)
    return wrong


def _checked(path: Path, truth: arb, sample: Sample, changed: bool = False) -> list[str]:
    """What is false of what the checker accepts."""
    try:
        verdict = check_proof(path)
    except ProofError as error:
        return [] if changed else [f"{sample}: a true proof is rejected: {error}"]
    claim = verdict.statement
    if arb(exact(claim.lower)) > truth:
        return [f"{sample}: lower {claim.lower!r} was accepted, truth {truth.str(20)}"]
    if verdict.upper_proved and arb(exact(claim.upper)) < truth:
        return [f"{sample}: upper {claim.upper!r} was accepted, truth {truth.str(20)}"]
    return []


def _changed(rng: Rng, lines: list[Any], truth: arb) -> bytes:
    """The proof with a false end, and perhaps other changes that might hide it."""
    copy = json.loads(json.dumps(lines))
    first, size = copy[0], float(truth.mid())
    share = 10.0 ** -float(rng.integers(1, 12))
    if rng.random() < 0.5 and size > 0:
        first["upper"] = size * (1.0 - share)
        first["lower"] = min(first["lower"], first["upper"])
    else:
        first["lower"] = size * (1.0 + share) + (share if size == 0 else 0.0)
        first["upper"] = max(first["lower"], first["upper"])
    places = [p for p in _places(copy, ()) if p[0] > 0 or p[1:2] == ("witness",)]
    for _ in range(int(rng.integers(0, 4))):
        if not places:
            break
        *way, last = places[int(rng.integers(0, len(places)))]
        holder = copy
        try:
            for key in way:
                holder = holder[key]
            holder[last] = _other(rng, holder[last])
        except (IndexError, KeyError, TypeError):
            continue
    if rng.random() < 0.2 and len(copy) > 2:
        del copy[int(rng.integers(1, len(copy)))]
    return gzip.compress("".join(json.dumps(line) + "\n" for line in copy).encode())


def _places(item: Any, way: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Ways to all entries of nested lists and dictionaries."""
    inner = item.items() if isinstance(item, dict) else enumerate(item)
    found = []
    for key, value in inner:
        found.append((*way, key))
        if isinstance(value, dict | list):
            found += _places(value, (*way, key))
    return found


def _other(rng: Rng, value: Any) -> Any:
    """Something in the place of a value: near it, far from it, or of another kind."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, list) and value and rng.random() < 0.7:
            return value[:-1] if rng.random() < 0.5 else [*value, value[0]]
        return [[], 0, None, "x", value][int(rng.integers(0, 5))]
    if isinstance(value, int):
        return value + int(rng.choice([-1, 1, 2, -(value or 1), 10**6]))
    factor = rng.choice([-1.0, 0.0, 0.5, 2.0, 1e6, 1e300, 1.0 + 1e-9, 1.0 - 1e-6])
    return float(value * factor) if value != 0 else float(rng.choice([1.0, -1.0, 1e-9]))


def sweeps(rng: Rng) -> list[str]:
    """Constants of several curved, tangent or unbounded domains of one network."""
    network, layers = _network(rng)
    d, wrong, problems, oracles = network.input_dim, [], [], []
    norm = str(rng.choice(["linf", "l1", "l2"]))
    c = rng.choice([1.0, -1.0, 2.0], network.output_dim)
    kinds = ["l2", "l2", "l1", "tangent", "clipped", "all"]
    none, free = (np.zeros((0, d)), np.zeros(0)), (np.full(d, -np.inf), np.full(d, np.inf))
    for kind in rng.choice(kinds, 3):
        center, radius = rng.integers(-2, 3, d) / 2.0, float(rng.choice([0.25, 0.5, 1.0, 2.0]))
        name, low, high = "l1" if kind == "l1" else "l2", *free
        if kind == "tangent":  # the ball touches a kink of the first layer where it can
            row, bias = layers[0].weight[0], layers[0].bias[0]
            length = float(np.linalg.norm(row))
            if length > 0 and abs(row @ center + bias) > 0:
                radius = float(abs(row @ center + bias) / length)
        if kind == "clipped":
            low, high = center - rng.choice([0.0, 1.0], d), center + 0.75 * radius
        try:
            domain: lipyomo.Domain = (
                lipyomo.AllSpace(d)
                if kind == "all"
                else lipyomo.ball(center, radius, name, (low, high) if kind == "clipped" else None)
            )
            problems.append(LipschitzProblem(network, domain, norm, functional=c))
        except LipyomoError:
            continue
        body = None if kind == "all" else (name, center, radius)
        oracles.append(Oracle(layers, PlainDomain(low, high, *none, body), norm, [c]))
    found = lipyomo.sweep(problems, workers=1, time_limit=10)
    for row in found:
        if row.result is None:
            wrong.append(f"no result: {row.error}")
            continue
        truth = oracles[row.index].constant()
        broken = faults(row.result, truth)
        wrong += [f"{problems[row.index]!r}: {what} {row.result!r}" for what in broken]
        if row.result.status is not Status.EXACT:
            wrong.append(f"OPEN {problems[row.index]!r} {row.result!r} {row.result.warnings}")
    return wrong


def settings(rng: Rng) -> list[str]:
    """Gaps, checkpoints that are gone on from, several threads: the ends hold all the same."""
    sample, truth = _sample(rng)
    wrong = []
    gap = float(rng.choice([0.01, 0.2, 0.9]))
    result = lipyomo.solve(sample.problem, "bnb", gap=gap, time_limit=10)
    wrong += [f"{sample} gap {gap}: {what}" for what in faults(result, truth)]
    if result.upper - result.lower > (gap + SMALL) * result.upper + 1e-59:
        wrong.append(f"OPEN {sample}: [{result.lower}, {result.upper}] is wider than {gap}")
    with tempfile.TemporaryDirectory() as folder:
        path, asked = Path(folder) / "state", int(rng.integers(1, 30))
        calls = iter(range(10**9))
        part = lipyomo.solve(
            sample.problem, "bnb", checkpoint=path, should_stop=lambda: next(calls) > asked
        )
        wrong += [f"{sample} stopped: {what}" for what in faults(part, truth)]
        more = lipyomo.solve(sample.problem, "bnb", checkpoint=path, resume=True, time_limit=10)
        wrong += [f"{sample} resumed: {what}" for what in faults(more, truth)]
        if more.lower < part.lower or more.upper > part.upper:
            wrong.append(f"{sample} resumed: [{more.lower}, {more.upper}] after {part!r}")
    if rng.random() < 0.2:
        two = lipyomo.solve(sample.problem, "bnb", workers=2, time_limit=10)
        wrong += [f"{sample} two threads: {what}" for what in faults(two, truth)]
    return wrong


def files(rng: Rng) -> list[str]:
    """ONNX files through the command line."""
    with tempfile.TemporaryDirectory() as folder:
        wrong, words, truth = command_line(rng, Path(folder))
    return [
        f"{what}, truth {truth.str(20)}, {[Path(str(w)).name for w in words]}" for what in wrong
    ]


def deviations(rng: Rng) -> list[str]:
    """The largest value of a network made of networks, in a norm with a dual polytope."""
    name = str(rng.choice(list(COMPOSED)))
    network, layers = COMPOSED[name](rng)
    low, high = box_of(rng, network.input_dim)
    _, outputs, functionals = linear_norms(rng, network.output_dim)
    problem = LipschitzProblem(network, Box(low, high), **outputs)  # type: ignore[arg-type]
    found = largest_value(problem, time_limit=20)
    rows = problem.dual_vertices if functionals is None else functionals
    oracle = Oracle(layers, _box(low, high), "linf", None)
    both = [[exact(sign * y) for y in row] for row in rows for sign in (1.0, -1.0)]
    truth = max(-oracle.least(row) for row in both)
    wrong = []
    if exact(found.lower) > truth:
        wrong.append(f"{name} {problem!r}: lower {found.lower!r} is above {float(truth)!r}")
    if exact(found.upper) < truth:
        wrong.append(f"{name} {problem!r}: upper {found.upper!r} is below {float(truth)!r}")
    if not found.is_exact and found.status is not Status.PRECISION:
        wrong.append(f"OPEN {name} {problem!r}: [{found.lower}, {found.upper}] {found.status}")
    if found.x is None or found.functional is None:
        return [*wrong, f"{name} {problem!r}: no witness"]
    values = zip(found.functional.tolist(), _value(layers, found.x.tolist()), strict=True)
    attained = abs(sum((Fraction(y) * v for y, v in values), Fraction(0)))
    if attained < Fraction(found.lower):
        wrong.append(f"{name} {problem!r}: {found.lower!r} is not attained at {found.x}")
    return wrong


USERS: dict[str, Callable[[Rng], list[str]]] = {
    f.__name__: f
    for f in (files, certify, ranges, monotone, blocks, proofs, sweeps, settings, deviations)
}


def case(name: str, seed: int) -> list[str]:
    """The broken promises of one case.

    Raises
    ------
    LipyomoError, OverflowError
        If the package refuses the problem, or the oracle gives up.
    """
    return USERS[name](np.random.default_rng([seed, *map(ord, name)]))
