"""The fuzz for hours: ``python tests/fuzz/fuzz_run.py --count 200 --methods auto interval sdp``.

Draws hostile networks by seed, finds their constants in exact arithmetic, and prints every answer
that breaks a promise, with family and seed.  Ends with a line of counts.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter

from fuzz_families import FAMILIES, draw
from fuzz_judge import faults

import lipyomo
from lipyomo import LipyomoError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--count", type=int, default=20, help="seeds a family")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--methods", nargs="*", default=["auto"], help="METHOD or mip:SOLVER")
    parser.add_argument("--time", type=float, default=10.0, help="seconds a run")
    parser.add_argument("--quiet", action="store_true", help="let RuntimeWarnings pass")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for family in options.families:
        for seed in range(options.first, options.first + options.count):
            try:
                sample = draw(family, seed)
                truth = sample.oracle.constant()
            except (LipyomoError, OverflowError) as error:
                counts["not drawn"] += 1
                if isinstance(error, LipyomoError):
                    print(f"{family}/{seed} refused: {str(error).splitlines()[0]}")
                continue
            counts["networks"] += 1
            for name in options.methods:
                method, _, solver = name.partition(":")
                start = time.perf_counter()
                counts["runs"] += 1
                try:
                    with warnings.catch_warnings():
                        if not options.quiet:
                            warnings.simplefilter("error", RuntimeWarning)
                        result = lipyomo.solve(
                            sample.problem, method, time_limit=options.time, solver=solver or "auto"
                        )
                except LipyomoError as error:
                    counts[f"{name} refused"] += 1
                    refusals[f"{name}: {str(error).splitlines()[0][:90]}"] += 1
                    if "defect" in str(error):
                        print(f"{family}/{seed} {name}: {error}")
                    continue
                except Exception:
                    counts[f"{name} TRACEBACK"] += 1
                    last = traceback.format_exc().strip().splitlines()
                    print(f"{family}/{seed} {name}: {last[-3].strip()} {last[-1]}", flush=True)
                    continue
                seconds = time.perf_counter() - start
                wrong = faults(sample, result, truth)
                if seconds > 2 * options.time + 1:
                    wrong.append(f"took {seconds:.0f} s")
                for fault in wrong:
                    counts[f"{name} WRONG"] += 1
                    print(
                        f"{family}/{seed} {name}: {fault}: [{result.lower!r}, {result.upper!r}] "
                        f"{result.status}, truth {truth.str(20)}  {sample.problem!r}",
                        flush=True,
                    )
                if method in ("auto", "bnb", "mip") and result.status != "exact" and not wrong:
                    counts[f"{name} left open"] += 1
                    print(
                        f"{family}/{seed} {name}: open: [{result.lower!r}, {result.upper!r}] "
                        f"{result.status}, truth {truth.str(20)}  {result.warnings}",
                        flush=True,
                    )
    print("\n".join(f"refused {count} times by {what}" for what, count in refusals.items()))
    print(", ".join(f"{key} {value}" for key, value in counts.items()))
    return int(any("WRONG" in key or "TRACEBACK" in key for key in counts))


if __name__ == "__main__":
    sys.exit(main())
