"""The gallery of the documentation: every method and every picture on one network.

    python -m experiments gallery

Runs ``lipyomo compare`` on ``models/random10_s0.onnx``, draws its pictures into ``docs/pictures``
and writes the table between the markers of ``docs/gallery.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import lipyomo
from experiments.reference import ROOT
from lipyomo.compare import Row, compare, plot_rows, with_errors
from lipyomo.compare.errors import error_text, width_text
from lipyomo.decimals import down, up
from lipyomo.history import plot_history
from lipyomo.methods.registry import methods
from lipyomo.pictures import new_figure

BEGIN, END = "<!-- methods on one network -->", "<!-- end of methods on one network -->"


def _line(row: Row) -> str:
    title = methods()[row.method].title
    if row.value is None:
        return f"| `{row.method}` | {title} | {row.guarantee} | {row.status} |  |  |"
    value = up(row.value, 6) if row.guarantee == "upper" else down(row.value, 6)
    error = error_text(row.error, False)
    if row.is_open:
        value, error = f"[{down(row.lower, 6)}, {up(row.upper, 6)}]", width_text(*_ends(row))
    seconds = f"{row.seconds:.2f}"
    return f"| `{row.method}` | {title} | {row.guarantee} | {value} | {error} | {seconds} |"


def _ends(row: Row) -> tuple[float, float]:
    return row.lower, row.upper


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments gallery", description="Make the gallery again."
    )
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="a method")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of the pages")
    options = parser.parse_args(words)
    new_figure(1.0, 1.0)  # says that matplotlib is missing before a minute of computing
    network = lipyomo.load(ROOT / "models" / "random10_s0.onnx")
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(0.0, 1.0, network.input_dim))
    able = [name for name, method in methods().items() if method.refusal(problem) is None]
    rows = with_errors(list(compare(problem, able, options.time_limit)))
    rows.sort(key=lambda row: (-(row.value or 0.0), row.method))
    pictures = options.out / "pictures"
    plot_rows(rows, pictures / "gallery_compare.png")
    plot_history(lipyomo.solve(problem, "bnb"), problem, pictures / "gallery_time.png")
    head = (
        "| method | what it is | guarantee | value | error | seconds |\n|---|---|---|---|---|---|"
    )
    page = options.out / "gallery.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    table = "\n".join([head, *map(_line, rows)])
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    print(table)
