"""Upper bounds of the papers' methods, beside the published figures.

Usage::

    python -m experiments methods [--wide] [--shared FOLDER]

Prints one line a network and method: the bound, CPU and wall seconds, and the published value.
``--wide`` runs Shor's relaxation and HR-2 on the MNIST network 784-500-1 instead (minutes).  The
networks are of other groups and read from FOLDER (default: ../shared beside the repository).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.reference import SHARED, load_reference
from lipyomo import AllSpace, Box, Domain, LipschitzProblem, Network, solve


@dataclass
class Run:
    """A method on a problem, and what was published."""

    name: str
    problem: LipschitzProblem
    method: str
    published: float | None
    options: dict[str, Any] = field(default_factory=dict)


def usual(folder: Path) -> Iterator[Run]:
    values = json.loads((folder / "values.json").read_text())
    for size in ("10_12", "20_24", "80_80"):
        for seed in range(5):
            name = f"chen_{size}_seed{seed}"
            stored = load_reference(folder / f"{name}.npz")
            network = stored.network
            places: dict[str, Domain] = {
                "local": stored.box,
                "global": AllSpace(network.input_dim),
            }
            for place, domain in places.items():
                problem = LipschitzProblem(network, domain)
                known = values[name][place]
                yield Run(f"{name} {place}", problem, "shor", known["shor"])
                yield Run(f"{name} {place}", problem, "hr2", known["hr2"])
                if size != "80_80":
                    yield Run(f"{name} {place}", problem, "lipopt", known["lipopt3"])
    for name in ("lipsdp_random", "lipsdp_mnist"):
        network = load_reference(folder / f"{name}.npz").network
        problem = LipschitzProblem(network, AllSpace(network.input_dim), "l2", "l2")
        for form in ("neuron", "layer"):
            options = {"form": form, "slopes": "global"}
            known = values[name][f"lipsdp_{form}"]
            yield Run(f"{name} {form}", problem, "lipsdp", known, options)
        yield Run(name, problem, "eclipse", None)


def wide(folder: Path) -> Iterator[Run]:
    data = np.load(folder / "sdpnn_784-500.npz")
    network = Network.from_arrays([data["A"], data["c"].T], [data["b"], np.zeros(1)])
    known = json.loads((folder / "values.json").read_text())["sdpnn_784-500"]["paper"]
    for place, radius in (("local", 0.1), ("global_", 10.0)):
        box = Box(data["x0"] - radius, data["x0"] + radius)
        for method in ("shor", "hr2"):
            run = Run(f"784-500-1 radius {radius:g}", LipschitzProblem(network, box), method, None)
            run.published, run.options = known[place][method], {"tolerance": 1e-3}
            yield run


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments methods", description="The papers' upper bounds."
    )
    parser.add_argument("--wide", action="store_true", help="the network 784-500-1")
    parser.add_argument("--shared", type=Path, default=SHARED, help="networks")
    arguments = parser.parse_args(words)
    folder = arguments.shared / "reference"
    if not (folder / "values.json").exists():
        parser.error(f"no networks of other groups in '{folder}'; give --shared FOLDER")
    print(f"{'network':28} {'method':8} {'bound':>12} {'published':>12} {'CPU s':>8} {'wall s':>8}")
    for run in wide(folder) if arguments.wide else usual(folder):
        cpu, wall = time.process_time(), time.perf_counter()
        upper = solve(run.problem, run.method, options=run.options, attain=False).upper
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        known = "" if run.published is None else f"{run.published:.6f}"
        print(
            f"{run.name:28} {run.method:8} {upper:12.6f} {known:>12} {cpu:8.2f} {wall:8.2f}",
            flush=True,
        )
