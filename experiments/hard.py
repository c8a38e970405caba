"""Hard networks over several seeds, beside an earlier commit: seconds, nodes, ends.

Usage::

    python -m experiments hard [--vs COMMIT] [--cases NAME ...] [--seeds 5] [--time 30]
                               [--alone] [--shared FOLDER] [--table FILE]

Every case is the command line in a process of its own, with one thread; with ``--vs``, that of the
earlier commit runs at the same time (``--alone``: one after the other).  What counts is the
geometric mean over a family: of CPU seconds where both are exact, of the open gap (upper end less
lower end) where one is not.  The trace of a single search is chaotic, so a family is judged over
all of its seeds.  Networks of other groups are read from FOLDER, as is MNIST for the networks of
images; cases whose files are absent are left out, and named.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from experiments.mnist import read_mnist
from experiments.problems import he
from experiments.reference import ROOT, SHARED, load_reference
from experiments.training.leaders import leaders_dataset
from experiments.training.plain import fit_classifier
from lipyomo import Box, Network
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.cli.words import UsageError
from lipyomo.formats.onnx.export import to_onnx

DIFFERENCE = ("--functional", "1,-1")
"""Two classes: f_0 - f_1."""
BOTH = ("--norm", "linf", "--output-norm", "linf")
EUCLIDEAN = ("--norm", "l2", "--output-norm", "l2")
UNIT = 1.0 / 255.0
"""One grey value of an image."""


@dataclass(frozen=True)
class Question:
    """A network, a domain, and the words of the command line that ask for the rest.

    Attributes
    ----------
    network : Network or Path
        Or the ONNX file of one.
    domain : Box or None
        None for all of R^d.
    words : tuple of str
    """

    network: Network | Path
    domain: Box | None
    words: tuple[str, ...] = ()

    def command(self, folder: Path) -> list[str]:
        """Words of the command line, with the files that they name written into `folder`."""
        if isinstance(self.network, Path):
            path = self.network
        else:
            path = folder / "net.onnx"
            to_onnx(self.network, path)
        if self.domain is None:
            return [str(path), "--everywhere", *self.words]
        ends = [folder / "lower.npy", folder / "upper.npy"]
        np.save(ends[0], self.domain.lower)
        np.save(ends[1], self.domain.upper)
        return [str(path), "--box", ",".join(map(str, ends)), *self.words]


Ask = Callable[[Path, int], Question]
"""From the folder of other groups' networks, and a seed."""


def chen(_: Path, seed: int) -> Question:
    """Like Chen et al.: (80, 80), uniform weights, a box of radius one tenth."""
    rng = np.random.default_rng(seed)
    widest = 1.0 / np.sqrt(80)
    weights = [rng.uniform(-widest, widest, shape) for shape in ((80, 80), (1, 80))]
    biases = [rng.uniform(-widest, widest, 80), np.zeros(1)]
    center = rng.uniform(0.0, 1.0, 80)
    return Question(Network.from_arrays(weights, biases), Box(center - 0.1, center + 0.1))


def drawn(_: Path, seed: int) -> Question:
    """A random [10, 20, 30, 20, 2] network on a cube about the middle of the unit cube."""
    return Question(he((10, 20, 30, 20, 2), seed), Box(0.3, 0.7, 10), DIFFERENCE)


def trained(_: Path, seed: int) -> Question:
    """The same layers, trained on the leaders' data, on all of the unit cube."""
    data = leaders_dataset(10, 1000, 50, 2, seed=seed)
    parts = fit_classifier((10, 20, 30, 20, 2), data.points, data.labels, epochs=200, seed=seed)
    return Question(Network.from_arrays(*parts), Box(0.3, 0.7, 10), DIFFERENCE)


def deep(_: Path, seed: int) -> Question:
    """Six layers of eight units."""
    return Question(he((4, *[8] * 6, 2), seed), Box(0.0, 1.0, 4), BOTH)


def euclidean(_: Path, seed: int) -> Question:
    """From l2 to l2."""
    return Question(he((10, 20, 15, 10, 3), seed), Box(0.0, 1.0, 10), EUCLIDEAN)


def everywhere(_: Path, seed: int) -> Question:
    """On all of R^d, in l2."""
    return Question(he((11, 16, 16, 1), seed), None, EUCLIDEAN)


def proof(_: Path, seed: int) -> Question:
    """An answer with its proof."""
    words = (*DIFFERENCE, "--proof", "proof")
    return Question(he((16, 16, 16, 2), seed), Box(0.0, 1.0, 16), words)


@cache
def _digits(sizes: tuple[int, ...], seed: int, shared: Path) -> tuple[Network, FloatArray]:
    """A network trained on MNIST's test images, and one of these."""
    images, labels = read_mnist(shared / "data" / "mnist", "t10k")
    weights, biases = fit_classifier(sizes, images, labels, epochs=3, seed=seed)
    return Network.from_arrays(weights, biases), images[seed].astype(np.float64)


def digits(sizes: tuple[int, ...], units: float, shared: Path, seed: int) -> Question:
    """A ball of some grey values about an image."""
    network, image = _digits(sizes, seed, shared)
    return Question(network, Box(image - units * UNIT, image + units * UNIT), BOTH)


def published(name: str, words: tuple[str, ...], shared: Path, seed: int) -> Question:
    """A network of `reference/`; ``{}`` in its name is the seed."""
    known = load_reference(shared / "reference" / f"{name.format(seed)}.npz")
    return Question(known.network, known.box if "lo" in known.arrays else None, words)


def large(name: str, radius: float, shared: Path, _: int) -> Question:
    """A ball about the centre of a network of `scale/`."""
    center = np.load(shared / "scale" / f"{name}.npy").reshape(-1)
    return Question(shared / "scale" / f"{name}.onnx", Box(center - radius, center + radius), BOTH)


FAMILIES: dict[str, Ask] = {
    "Chen-like 80-80": chen,
    "random 10-20-30-20-2": drawn,
    "trained 10-20-30-20-2": trained,
    "deep 4-8x6-2": deep,
    "l2 10-20-15-10-3": euclidean,
    "R^d 11-16-16-1": everywhere,
    "proof 16-16-16-2": proof,
    "784-256-256-10, 2/255": partial(digits, (784, 256, 256, 10), 2),
    "784-256-256-10, 4/255": partial(digits, (784, 256, 256, 10), 4),
    "784-256-256-10, 8/255": partial(digits, (784, 256, 256, 10), 8),
    "784-500-10, 8/255": partial(digits, (784, 500, 10), 8),
    "784-256x3-10, 4/255": partial(digits, (784, 256, 256, 256, 10), 4),
    "Chen 80-80": partial(published, "chen_80_80_seed{}", ()),
}
"""Asked with every seed."""

SINGLE: dict[str, Ask] = {
    "LipMIP A": partial(published, "lipmip_A_16-16-16-2_cube_s0", DIFFERENCE),
    "LipMIP C": partial(published, "lipmip_C_2-20-40-20-2_cube_s0", DIFFERENCE),
    "LipMIP D": partial(published, "lipmip_D_784-20-20-20-2_ball0.1_s0", DIFFERENCE),
    "ExLipBaB wine": partial(published, "exlipbab_wine_11-12-12-1", EUCLIDEAN),
    "LipBaB": partial(published, "lipbab_sd_10-20-15-10-3", EUCLIDEAN),
    "m100x2, 8/255": partial(large, "m100x2", 8 * UNIT),
    "m256x3, 1/255": partial(large, "m256x3", UNIT),
    "m256x3, 4/255": partial(large, "m256x3", 4 * UNIT),
    "CNN, 2/255": partial(large, "cnn_mnist", 2 * UNIT),
    "reg6, .5": partial(large, "reg6", 0.5),
}
"""Single networks of other groups: one family together."""


@dataclass(frozen=True)
class Run:
    """What one run gave.

    Attributes
    ----------
    lower, upper : float
    exact : bool
    nodes : int
    seconds : float
        CPU seconds of the whole process.
    """

    lower: float
    upper: float
    exact: bool
    nodes: int
    seconds: float

    def __str__(self) -> str:
        end = "exact" if self.exact else "open"
        ends = f"[{self.lower:.6g}, {self.upper:.6g}]"
        return f"{ends} {end}, {self.nodes} nodes, {self.seconds:.1f} s"


def run(words: Sequence[str], source: Path, limit: float, cache: Path | None = None) -> Run:
    """The command line of the package in `source`, in a process and a folder of its own.

    Bytecode is kept in the folder `cache`, if there is one: compiling what a run imports takes a
    tenth to a third of a second, more for the version with more modules.
    """
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(source)}
    if cache is not None:
        quiet |= {"PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "lipyomo", *words, "--json", "--time-limit", str(limit)]
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "errors", "w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | quiet,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        text = process.stdout.read()
        used = _used(process)
        if not text.startswith("{"):
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {errors.read()}")
    found: dict[str, Any] = json.loads(text)
    exact = found["status"] == "exact"
    return Run(found["lower"], found["upper"], exact, found.get("nodes") or 0, used)


def _used(process: subprocess.Popen[str]) -> float:
    """CPU seconds of a process that has said all."""
    used: resource.struct_rusage
    _, process.returncode, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The sources of an earlier commit, in a folder that is removed again."""
    git = partial(subprocess.run, cwd=ROOT, check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "earlier"
        try:
            git(["git", "worktree", "add", "--detach", str(tree), commit])
        except subprocess.CalledProcessError as error:
            raise UsageError(f"--vs {commit}: {error.stderr.strip()}") from None
        try:
            yield tree / "src"
        finally:
            git(["git", "worktree", "remove", "--force", str(tree)])


def chosen(parts: Sequence[str], seeds: int) -> Iterator[tuple[str, str, Ask, int]]:
    """Family, name, question and seed of each case whose name holds one of some words."""
    cases = [(family, ask, seed) for family, ask in FAMILIES.items() for seed in range(seeds)]
    for family, ask, seed in cases:
        if any(part in family for part in parts):
            yield family, f"{family}, seed {seed}", ask, seed
    for name, ask in SINGLE.items():
        if any(part in name for part in parts):
            yield "of other groups", name, ask, 0


@dataclass(frozen=True)
class Compared:
    """The runs of one case, this version's first."""

    family: str
    runs: tuple[Run, ...]


def table(results: Sequence[Compared]) -> list[str]:
    """Rows in Markdown, a family each: cases, geometric means, and of their ratios."""
    rows = [
        "| family | cases | exact | seconds | nodes | seconds, ratio | open gap, ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(case.family for case in results):
        cases = [case.runs for case in results if case.family == family]
        now = [runs[0] for runs in cases]
        row = [family, str(len(now)), str(sum(run.exact for run in now))]
        row.append(f"{geometric_mean([run.seconds for run in now]):.1f}")
        row.append(f"{geometric_mean([max(run.nodes, 1) for run in now]):.0f}")
        pairs = [(runs[0], runs[1]) for runs in cases if len(runs) == 2]
        times = [a.seconds / b.seconds for a, b in pairs if a.exact and b.exact]
        gaps = [
            (a.upper - a.lower) / (b.upper - b.lower)
            for a, b in pairs
            if not (a.exact and b.exact)
            and a.upper > a.lower
            and b.upper > b.lower
            and math.isfinite(a.upper + b.upper)
        ]
        row += [f"{geometric_mean(values):.2f}" if values else "" for values in (times, gaps)]
        rows.append(f"| {' | '.join(row)} |")
    return rows


def measure(options: argparse.Namespace, sources: Sequence[Path]) -> list[Compared]:
    """Run every case, and print it."""
    results: list[Compared] = []
    with (
        tempfile.TemporaryDirectory() as cache,
        ThreadPoolExecutor(1 if options.alone else len(sources)) as pool,
    ):
        for family, name, ask, seed in chosen(options.cases, options.seeds):
            try:
                question = ask(options.shared.resolve(), seed)
            except (FileNotFoundError, ProblemError):
                print(f"{name}: left out, its files are not in '{options.shared}'", flush=True)
                continue
            with tempfile.TemporaryDirectory() as folder:
                words = question.command(Path(folder))
                asked = partial(run, words, limit=options.time, cache=Path(cache))
                if not results:  # what is imported gets compiled
                    list(pool.map(partial(asked, limit=1.0), sources))
                runs = tuple(pool.map(asked, sources))
            results.append(Compared(family, runs))
            print(f"{name}: {' | '.join(map(str, runs))}", flush=True)
    return results


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments hard", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--vs", metavar="COMMIT", help="an earlier commit to compare with")
    parser.add_argument("--cases", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each family")
    parser.add_argument("--time", type=float, default=30.0, help="seconds a run")
    parser.add_argument("--alone", action="store_true", help="one run at a time")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--table", type=Path, help="where the table goes, as Markdown")
    options = parser.parse_args(words)
    if options.vs:
        with checked_out(options.vs) as earlier:
            rows = table(measure(options, [ROOT / "src", earlier]))
    else:
        rows = table(measure(options, [ROOT / "src"]))
    print("\n".join(rows))
    if options.table:
        options.table.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
