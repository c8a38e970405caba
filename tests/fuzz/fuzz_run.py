"""The fuzz for hours: ``python tests/fuzz/fuzz_run.py --count 200 --methods auto interval sdp``.

Draws hostile networks by seed, finds their constants in exact arithmetic, and prints every answer
that breaks a promise, with family and seed.  Ends with lines of counts.  ``--families smooth`` are
those of smooth and mixed networks, whose constants are enclosed in Arb, and ``directed`` those with
directions, ``heads`` those whose first or last layers cancel.  With ``--users`` it asks
for other things than constants: ``--users files certify proofs``, say.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from flint import arb
from fuzz_families import DIRECTED, FAMILIES, MULTIPLYING, Sample, draw
from fuzz_heads import HEADS
from fuzz_judge import false_witness, faults
from fuzz_oracle import FlatDomain
from fuzz_users import USERS, case
from smooth_networks import CURVED

import lipyomo
from lipyomo import LipyomoError
from lipyomo.methods import get_method

EXACT = ("auto", "bnb", "mip")
"""Methods whose answers are counted as open unless they are exact."""


ORACLE_SECONDS = 20.0
"""CPU seconds after which a network has too many regions for the oracle."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise OverflowError after so many CPU seconds."""

    def stop(*_: object) -> None:
        raise OverflowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


class Fuzz:
    """What was run, and what came of it."""

    def __init__(self, seconds: float, quiet: bool) -> None:
        self.seconds, self.quiet = seconds, quiet
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.work: Counter[str] = Counter()

    def sample(self, family: str, seed: int) -> tuple[Sample, arb] | None:
        """A problem and its constant."""
        work = time.process_time()
        try:
            with limited(ORACLE_SECONDS):
                found = draw(family, seed)
                truth = found.oracle.constant()
        except LipyomoError as error:
            self.refusals[f"the problem: {str(error).splitlines()[0][:90]}"] += 1
        except OverflowError:
            self.counts["too many regions"] += 1
        except FlatDomain:
            self.counts["flat domain WRONG"] += 1
            print(f"{family}/{seed}: a domain without interior was taken", flush=True)
        else:
            self.counts["networks"] += 1
            return found, truth
        finally:
            self.work["oracle"] += time.process_time() - work
        return None

    def run(self, sample: Sample, truth: arb, name: str) -> None:
        """One method on one problem."""
        label = f"{sample.family}/{sample.seed} {name}"
        method, _, solver = name.partition(":")
        work = time.process_time()
        self.counts["runs"] += 1
        try:
            with warnings.catch_warnings():
                if not self.quiet:
                    warnings.simplefilter("error", RuntimeWarning)
                result = lipyomo.solve(
                    sample.problem, method, time_limit=self.seconds, solver=solver or "auto"
                )
        except LipyomoError as error:
            self.refusals[f"{name}: {str(error).splitlines()[0][:90]}"] += 1
            if "defect" in str(error):
                print(f"{label}: {error}", flush=True)
            return
        except Exception:
            self.counts[f"{name} TRACEBACK"] += 1
            last = traceback.format_exc().strip().splitlines()
            print(f"{label}: {last[-3].strip()} {last[-1]}", flush=True)
            return
        finally:
            self.work[name] += time.process_time() - work
        took = time.process_time() - work  # of this process: others may take theirs meanwhile
        wrong = faults(result, truth)
        if result.witness is not None:
            self.counts["witnesses"] += 1
            wrong += false_witness(result.witness, sample.oracle)
        if took > 2 * self.seconds + 1:
            wrong.append(f"took {took:.0f} s")
        answer = f"[{result.lower!r}, {result.upper!r}] {result.status}, truth {truth.str(20)}"
        for fault in wrong:
            self.counts[f"{name} WRONG"] += 1
            print(f"{label}: {fault}: {answer}  {sample.problem!r}", flush=True)
        if method in EXACT and result.status != "exact" and not wrong:
            self.counts[f"{name} left open"] += 1
            print(f"{label}: open: {answer}  {result.warnings}", flush=True)

    def touch(self, name: str, seed: int) -> None:
        """One case of something else that users touch."""
        work = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = case(name, seed)
        except LipyomoError as error:
            self.refusals[f"{name}: {str(error).splitlines()[0][:90]}"] += 1
        except OverflowError:
            self.counts["too many regions"] += 1
        except Exception:
            self.counts[f"{name} TRACEBACK"] += 1
            last = traceback.format_exc().strip().splitlines()
            print(f"{name}/{seed}: {last[-3].strip()} {last[-1]}", flush=True)
        else:
            self.counts[name] += 1
            for fault in wrong:
                self.counts[f"{name} {'left open' if fault.startswith('OPEN') else 'WRONG'}"] += 1
                print(f"{name}/{seed}: {fault}", flush=True)
        finally:
            self.work[name] += time.process_time() - work

    def report(self) -> None:
        """Print the counts."""
        for what, count in self.refusals.most_common():
            print(f"refused {count} times: {what}")
        print("CPU s:", ", ".join(f"{key} {value:.0f}" for key, value in self.work.most_common()))
        print(", ".join(f"{key} {value}" for key, value in self.counts.items()), flush=True)


def next_in_turn(names: list[str], turn: int, sample: Sample) -> tuple[list[str], int]:
    """The next method that takes the problem, if any, and whose turn comes then."""
    for step in range(len(names)):
        name = names[(turn + step) % len(names)]
        method = name.partition(":")[0]
        if method == "auto" or get_method(method).refusal(sample.problem) is None:
            return [name], turn + step + 1
    return [], turn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--families", nargs="*", default=[*FAMILIES, *DIRECTED, *CURVED, *MULTIPLYING, *HEADS]
    )
    parser.add_argument("--count", type=int, default=20, help="seeds a family")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--methods", nargs="*", default=["auto"], help="METHOD or mip:SOLVER")
    parser.add_argument("--rotate", action="store_true", help="one method a network, in turn")
    parser.add_argument("--time", type=float, default=10.0, help="seconds a run")
    parser.add_argument("--users", nargs="*", choices=USERS, help="what else users touch, instead")
    parser.add_argument("--quiet", action="store_true", help="let RuntimeWarnings pass")
    options = parser.parse_args()
    groups = {"smooth": CURVED, "products": MULTIPLYING, "directed": DIRECTED, "heads": HEADS}
    options.families = [k for name in options.families for k in groups.get(name, [name])]
    fuzz = Fuzz(options.time, options.quiet)
    turn = 0
    for seed in range(options.first, options.first + options.count):
        for name in options.users or ():
            fuzz.touch(name, seed)
        for family in () if options.users else options.families:
            found = fuzz.sample(family, seed)
            if found is None:
                continue
            names = options.methods
            if options.rotate:
                names, turn = next_in_turn(names, turn, found[0])
            for name in names:
                fuzz.run(*found, name)
        if (seed + 1 - options.first) % 10 == 0:
            fuzz.report()
    fuzz.report()
    return int(any("WRONG" in key or "TRACEBACK" in key for key in fuzz.counts))


if __name__ == "__main__":
    sys.exit(main())
