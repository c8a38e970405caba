"""Output of results as text and as JSON, and of their history."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from lipyomo.base.decimals import LISTED, down, interval, percent, seconds, up, vector
from lipyomo.base.system.outputs import HISTORY, written
from lipyomo.base.system.plain import finite
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result, Status
from lipyomo.version import __version__

_ENDED = {
    Status.GAP: "stopped at this relative gap",
    Status.TIME_LIMIT: "the time limit ended the run",
    Status.INTERRUPTED: "interrupted",
    Status.PRECISION: "what is left is too small for float64 numbers: more time does not help",
    Status.BOUNDS: "bounds only",
    Status.CONTRADICTION: "a defect: the ends contradict each other, and neither can be relied on",
}


def show(problem: LipschitzProblem, result: Result, arguments: argparse.Namespace) -> None:
    """Print the result on stdout, in the format chosen by the options."""
    if arguments.json:
        asked = problem_record(problem, str(arguments.network))
        asked["minus"] = None if arguments.minus is None else str(arguments.minus)
        record = result.to_dict() | {"problem": asked, "version": __version__}
        print(json.dumps(record, allow_nan=False))
    else:
        print_lines(summary(problem, result))


def write_history(result: Result, path: Path) -> None:
    """Write rows of seconds, lower and upper end to a CSV or JSON file (null for no bound yet)."""
    names = ("seconds", "lower", "upper")
    if path.suffix == ".json":
        rows = [dict(zip(names, map(finite, row), strict=True)) for row in result.history]
        text = json.dumps(rows, indent=1)
    else:
        lines = [",".join(names), *(",".join(map(repr, map(float, row))) for row in result.history)]
        text = "\n".join(lines)
    with written(path, HISTORY) as stream:
        stream.write(f"{text}\n".encode())


INDENT = len("directions  ")
_COLOURS = {"constant": "1", "warning": "33"}
"""Terminal codes: bold, yellow."""


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print names and texts in two columns, with colours on a terminal (https://no-color.org)."""
    terminal = sys.stdout.isatty()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size().columns if terminal else None
    for line in laid_out(lines, width, terminal and not plain):
        print(line)


def laid_out(lines: Sequence[tuple[str, str]], width: int | None, colour: bool) -> list[str]:
    """Format names and texts in two columns; on a terminal, texts are wrapped between words."""
    shown = []
    for name, text in lines:
        parts = [text]
        if width is not None and width > 2 * INDENT:
            parts = textwrap.wrap(
                text, width - INDENT, break_long_words=False, break_on_hyphens=False
            ) or [""]
        for number, part in enumerate(parts):
            code = _COLOURS.get(name) if colour else None
            painted = part if code is None else f"\x1b[{code}m{part}\x1b[0m"
            shown.append(f"{name if number == 0 else '':<{INDENT}}{painted}".rstrip())
    return shown


def problem_record(problem: LipschitzProblem, path: str) -> dict[str, Any]:
    """Return a problem as plain data."""
    network = problem.network
    return {
        "path": path,
        "network": network.name,
        "sizes": list(network.sizes),
        "inputs": network.input_dim,
        "input_names": None if network.input_names is None else list(network.input_names),
        "outputs": network.output_dim,
        "units": network.bent_units,
        "domain": problem.domain.describe(),
        "frozen_inputs": int(problem.domain.frozen.sum()),
        "norm": problem.norm,
        "output_norm": problem.output_norm.name,
        "functional": None if problem.functional is None else problem.functional.tolist(),
        "directions": _directions(problem),
    }


def _directions(problem: LipschitzProblem) -> dict[str, Any] | None:
    """Encode the matrix of directions by entries with row and column; None for no directions."""
    if problem.directions is None:
        return None
    matrix = sp.coo_array(problem.directions)
    matrix.eliminate_zeros()
    entries = zip(*(part.tolist() for part in (*matrix.coords, matrix.data)), strict=True)
    return {"shape": list(matrix.shape), "entries": [list(entry) for entry in entries]}


def summary(problem: LipschitzProblem, result: Result) -> list[tuple[str, str]]:
    """Return the lines of the text output as pairs of name and text."""
    network = problem.network
    lines = _value(result)
    largest = result.details.get("largest_value")
    if largest is not None:
        lines.extend(largest_lines(largest))
    lines.append(("norms", problem.describe_norms()))
    lines.extend(_domains(problem, result))
    lines.append(("network", f"{network.name}: {network.describe()}"))
    if result.unstable is not None:
        after = "" if result.bounds is None else f" after {result.bounds} bounds"
        lines.append(("unstable", f"{result.unstable} of {network.bent_units} units{after}"))
    lines.append(("method", _method(result)))
    nodes = "" if result.nodes is None else f", {result.nodes} nodes"
    lines.append(("time", seconds(result.seconds) + nodes))
    witness = result.witness
    if witness is not None:
        lines.append(("witness", f"x = {vector(witness.x, network.input_names)}"))
        if witness.rest is not None:
            lines.append(("", f"rest = {vector(witness.rest)} (the point is x + rest, exactly)"))
        lines.append(("", f"direction = {vector(witness.direction, network.input_names)}"))
        if len(witness.functional) > 1:
            lines.append(("", f"functional = {vector(witness.functional)}"))
        if witness.margin > 0.0:
            margin = up(witness.margin, 3) if math.isfinite(witness.margin) else "infinite"
            lines.append(("", f"distance to the nearest kink or face about {margin}"))
    lines.extend(("check", text) for text in _checks(problem, result))
    lines.extend(("warning", text) for text in result.warnings)
    return lines


def largest_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return lines on the largest difference of two networks' values, and where it is attained."""
    known = " (exact)" if found["status"] == Status.EXACT else f", {found['status']}"
    upper = math.inf if found["upper"] is None else found["upper"]
    lines = [("difference", f"of values at most {up(upper)}{known}")]
    if found["x"] is not None:
        lines.append(("", f"at least {down(found['lower'])} at x = {vector(found['x'])}"))
    return lines


def _domains(problem: LipschitzProblem, result: Result) -> list[tuple[str, str]]:
    """Return lines on the domain, or on its parts with the interval of each."""
    parts = result.details.get("parts", ())
    if not parts:
        return [("domain", problem.domain.describe())]
    lines = [("domain", f"{len(parts)} parts; the witness is in part {result.details['part']}")]
    for number, part in enumerate(parts[:LISTED]):
        ends = interval(part["lower"], part["upper"])
        lines.append(("", f"part {number}: {ends} {part['status']}, {part['domain']}"))
    if len(parts) > LISTED:
        lines.append(("", f"{len(parts) - LISTED} more: --json has them all"))
    return lines


def _value(result: Result) -> list[tuple[str, str]]:
    ends = interval(result.lower, result.upper)
    if math.isinf(result.lower):
        return [("constant", "infinite")]
    if result.is_exact:
        return [("constant", f"{result.lower:.10g} (exact)"), ("interval", ends)]
    lines: list[tuple[str, str]] = []
    if result.estimate is not None:
        lines.append(("estimate", f"{result.estimate:.6g} (a heuristic: it bounds nothing)"))
    if result.lower <= 0 and math.isfinite(result.upper):
        lines.append(("constant", f"at most {up(result.upper)}"))
    elif not math.isfinite(result.upper):
        lines.append(("constant", f"at least {down(result.lower)}"))
    else:
        lines.append(("interval", f"{ends}, gap {percent(result.gap)}"))
    ended = _ENDED[result.status]
    if result.status is Status.BOUNDS and result.guarantee is not Guarantee.EXACT:
        ended = {
            Guarantee.UPPER: "done: the method gives an upper bound",
            Guarantee.LOWER: "done: the method gives a lower bound",
            Guarantee.HEURISTIC: "done: the method gives an estimate",
        }[result.guarantee]
    lines.append(("status", ended))
    return lines


def _method(result: Result) -> str:
    parts = [result.method]
    if result.formulation is not None:
        parts.append(f"{result.formulation} formulation")
    if result.solver is not None:
        parts.append(f"solver {result.solver}")
    return ", ".join(parts)


def _checks(problem: LipschitzProblem, result: Result) -> list[str]:
    checks = []
    difference = result.details.get("runtime_difference")
    if difference is not None:
        checks.append(
            f"network agrees with onnxruntime at random points (difference {difference:.1g})"
        )
    if result.witness is not None:
        how = "recomputed from the weights at an interior point"
        if problem.network.smooth:
            how = "enclosed in ball arithmetic at a point of the domain"
        checks.append(f"lower bound {how}")
    rational = result.details.get("rational")
    if rational is not None and rational["holds"]:
        checks.append(f"witness confirmed in exact arithmetic: at least {down(rational['value'])}")
    agreed = result.details.get("cross_check")
    if agreed is not None:
        ends = interval(agreed["lower"], agreed["upper"])
        checks.append(f"solver {agreed['solver']} agrees: {ends}")
    return checks
