"""``python -m experiments.benchmark``: networks whose constants are known, and tools beside them.

- ``list``: the instances, with their constants
- ``run --tool TOOL``: what a tool says, beside the truth
- ``check``: verify all proofs of the folder
- ``make``, ``truth``, ``estimates``, ``table``: how the folder is made again
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.benchmark.instances import (
    PROOFS,
    Instance,
    Truth,
    read_estimates,
    read_instances,
    read_truth,
    write_estimates,
    write_instances,
    write_truth,
)
from experiments.benchmark.tools import ESTIMATORS, ask, estimate, guarantee_of, timed
from lipyomo.base.errors import LipyomoError

KEPT = 1_000_000
"""Bytes of the largest proof that stays in the folder."""
BELOW = 1e-6
"""Relative distance from the truth from which on an upper bound counts as wrong."""


def list_(given: argparse.Namespace) -> int:
    truth = read_truth()
    for one in read_instances(given.only):
        known = truth.get(one.name)
        value = "not known" if known is None else _interval(known)
        size = f"{len(one.lower)} inputs"
        print(f"{one.name:32} {one.family:11} {size:11} {one.norm} -> {one.output_norm:5} {value}")
    return 0


def run(given: argparse.Namespace) -> int:
    """Ask a tool, and compare."""
    truth, wrong, ratios, records = read_truth(), 0, [], []
    kind = guarantee_of(given.tool)
    for one in read_instances(given.only):
        known = truth.get(one.name)
        if known is None:
            continue
        value, seconds = ask(given.tool, one, given.time)
        says = "refused" if value is None else f"{value:.6g}"
        share = math.nan if value is None or known.upper <= 0 else value / known.upper
        verdict = ""
        if value is not None:
            ratios.append(share)
            too_low = value < known.lower * (1 - BELOW) and kind not in ("lower", "heuristic")
            too_high = value > known.upper * (1 + BELOW) and kind in ("lower",)
            verdict = "  WRONG: it is no bound" if too_low or too_high else ""
            wrong += bool(verdict)
        print(
            f"{one.name:32} {_interval(known):24} {says:>12} {share:8.4g} of the truth "
            f"{seconds:7.2f} s{verdict}",
            flush=True,
        )
        records.append({"instance": one.name, "value": value, "share": share, "seconds": seconds})
    if ratios:
        print(
            f"{len(ratios)} answers, median {statistics.median(ratios):.4g} of the truth, largest "
            f"{max(ratios):.4g}, least {min(ratios):.4g}; {wrong} wrong"
        )
    if given.out is not None:
        given.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def check(given: argparse.Namespace) -> int:
    """Verify every proof by ``lipyomo verify``."""
    truth, failed, count, began = read_truth(), 0, 0, time.perf_counter()
    for one in read_instances(given.only):
        known = truth.get(one.name)
        if known is None or known.proof is None:
            continue
        count += 1
        good, says = _verified(one, known)
        failed += not good
        print(f"{one.name:32} {says}", flush=True)
    spent = time.perf_counter() - began
    print(f"{count - failed} of {count} proofs hold, in {spent:.0f} s")
    return 1 if failed or not count else 0


def make(given: argparse.Namespace) -> int:
    from experiments.benchmark.networks import make as networks

    write_instances(networks())
    return 0


def truth_(given: argparse.Namespace) -> int:
    """Find the constants, and write the proofs that are small."""
    known = read_truth()
    PROOFS.mkdir(exist_ok=True)
    for one in read_instances(given.only):
        known[one.name] = found = _solved(one, given.time)
        write_truth(known)
        print(f"{one.name:32} {_interval(found)}  {found.seconds:.1f} s", flush=True)
    return 0


def _solved(one: Instance, limit: float) -> Truth:
    proof = PROOFS / f"{one.name}.proof"
    proof.unlink(missing_ok=True)
    words = [sys.executable, "-m", "lipyomo", *one.words, "--json", "--quiet"]
    words += ["--time-limit", repr(limit)]
    printed, problem, spent = timed(words)
    if not printed:
        return Truth(0.0, math.inf, problem.strip()[-300:], round(spent, 2))
    record = json.loads(printed)
    if record["status"] == "exact":
        subprocess.run([*words, "--proof", str(proof)], capture_output=True, check=False)
    found = Truth(record["lower"], record["upper"], record["status"], round(spent, 2))
    if proof.exists():  # one that came to its time limit proves a looser end
        proved = replace(found, proof=proof.name)
        if proof.stat().st_size <= KEPT and _verified(one, proved)[0]:
            return proved
        proof.unlink()
    return found


def _verified(one: Instance, known: Truth) -> tuple[bool, str]:
    """Whether a proof proves what is known, and what it proves."""
    proof = str(PROOFS / str(known.proof))
    words = [sys.executable, "-m", "lipyomo", "verify", proof, str(one.path), "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if not ran.stdout:
        return False, f"REJECTED: {ran.stderr.strip()}"
    proved, room = json.loads(ran.stdout), 1e-6 * known.upper
    good = proved["upper_proved"] and proved["upper"] <= known.upper + room
    good = good and proved["lower"] >= known.lower - room
    return good, f"[{proved['lower']:.8g}, {proved['upper']:.8g}]" + " not the truth" * (not good)


def estimates(given: argparse.Namespace) -> int:
    """What the methods of the literature say of every instance."""
    found = read_estimates()
    for one in read_instances(given.only):
        mine = found.setdefault(one.name, {})
        for tool in given.tools or ESTIMATORS:
            value, seconds = estimate(tool, one, given.time)
            mine[tool] = [value, round(seconds, 2)]
        write_estimates(found)
        print(one.name, flush=True)
    return 0


def table(given: argparse.Namespace) -> int:
    from experiments.benchmark.table import draw, table_of

    print(table_of())
    if given.picture is not None:
        draw(given.picture)
    return 0


def _interval(known: Truth) -> str:
    return f"{known.lower:.7g}" if known.is_exact else f"[{known.lower:.5g}, {known.upper:.5g}]"


def main(words: Sequence[str]) -> int:
    kind = argparse.RawDescriptionHelpFormatter
    name = "python -m experiments.benchmark"
    parser = argparse.ArgumentParser(name, description=__doc__, formatter_class=kind)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, act in (("list", list_), ("run", run), ("check", check), ("make", make),
                      ("truth", truth_), ("estimates", estimates), ("table", table)):  # fmt: skip
        command = commands.add_parser(name, help=(act.__doc__ or "").split("\n")[0] or None)
        command.set_defaults(act=act)
        command.add_argument("only", nargs="*", help="words in names or families of instances")
        if name in ("run", "truth", "estimates"):
            command.add_argument("--time", type=float, default=60.0, help="seconds an answer (60)")
        if name == "run":
            text = "lipyomo, a method of it, auto_lirpa, or a command with {network} and so on"
            command.add_argument("--tool", required=True, help=text)
            command.add_argument("--out", type=Path, help="a .json file of the answers")
        if name == "estimates":
            command.add_argument("--tools", nargs="*", help="methods (all of the literature)")
        if name == "table":
            command.add_argument("--picture", type=Path, help="draw it, too")
    given = parser.parse_args(words)
    try:
        return int(given.act(given))
    except LipyomoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
