"""The subcommands that list what there is: solvers and methods."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from lipyomo.cli.parser import Parser


def methods(words: Sequence[str]) -> int:
    """Run ``lipyomo methods``: every method with its guarantee, norms and source."""
    from lipyomo.methods.registry import methods as table

    parser = Parser("lipyomo methods", "Every method, with what it promises.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args(words)
    found = table()
    if arguments.json:
        record = {
            name: {
                "title": method.title,
                "guarantee": str(method.guarantee),
                "input_norms": list(method.input_norms),
                "output_norms": list(method.output_norms),
                "unbounded_domains": method.unbounded,
                "relu_only": method.relu_only,
                "options": {key: _plain(value) for key, value in method.options.items()},
                "reference": method.reference,
            }
            for name, method in found.items()
        }
        print(json.dumps(record))
        return 0
    print_table(
        ("method", "guarantee", "input norms", "output norms", "domain", "options", "reference"),
        [
            (
                name,
                str(method.guarantee),
                " ".join(method.input_norms),
                " ".join(method.output_norms),
                "any" if method.unbounded else "bounded",
                " ".join(f"{key}={value}" for key, value in method.options.items()) or "-",
                method.reference,
            )
            for name, method in found.items()
        ],
    )
    return 0


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout: fitted to a terminal, or with tabs between columns in a pipe."""
    if not sys.stdout.isatty():
        for row in (head, *rows):
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    for name in head:
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
