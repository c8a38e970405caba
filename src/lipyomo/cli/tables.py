"""The subcommands that list solvers and methods."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from lipyomo.base.system.plain import plain
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser

if TYPE_CHECKING:
    from lipyomo.methods.registry import Method

HEAD = ("method", "what it is", "guarantee", "input norms", "output norms", "domains", "units")


def print_methods(words: Sequence[str]) -> int:
    """Run ``lipyomo methods``: list every method with its guarantee, norms and source."""
    from lipyomo.methods.registry import methods as table

    parser = Parser("lipyomo methods", "Every method, with what it guarantees.")
    add_options(parser, "--debug")
    form = parser.add_mutually_exclusive_group()
    add_options(form, "--json", "--markdown")
    arguments = parser.parse_args(words)
    found = table()
    if arguments.markdown:
        print(markdown(found))
        return 0
    if arguments.json:
        kinds = ("input_norms", "output_norms", "relu_only", "smooth", "directions")
        own = ("title", "guarantee", *kinds, "reference", "options")
        record = {
            name: {field: plain(getattr(method, field)) for field in own}
            | {"unbounded_domains": method.unbounded}
            for name, method in found.items()
        }
        print(json.dumps(record))
        return 0
    print_table(HEAD, [cells(name, method) for name, method in found.items()])
    print("\nsources and options (--option NAME=VALUE, with their defaults):")
    for name, method in found.items():
        options = ", ".join(f"{key}={value}" for key, value in method.options.items())
        print(f"  {name}: {method.reference}" + (f"; options {options}" if options else ""))
    return 0


def cells(name: str, method: Method) -> tuple[str, ...]:
    """Return the row of a method: guarantee, norms, domains and units."""
    from lipyomo.methods.registry import EVERY

    missing = [norm for norm in EVERY if norm not in method.output_norms]
    outputs = f"all but {missing[0]}" if len(missing) == 1 else " ".join(method.output_norms)
    return (
        name,
        method.title,
        str(method.guarantee),
        "any" if {"linf", "l1", "l2"} <= set(method.input_norms) else " ".join(method.input_norms),
        outputs if missing else "any",
        "any" if method.unbounded else "bounded",
        "ReLU" if method.relu_only else "any" if method.smooth else "two-slope",
    )


def markdown(found: Mapping[str, Method]) -> str:
    """Return the table of methods as Markdown: guarantee, norms, domains and units of each."""
    rows = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for name, method in found.items():
        first, *rest = cells(name, method)
        rows.append("| " + " | ".join((f"`{first}`", *rest)) + " |")
    return "\n".join(rows)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout, fitted to a terminal, or as aligned lines for a pipe."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    for name in head:  # names are not wrapped; long texts are, and never cut
        table.add_column(name, no_wrap=name == head[0], overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_solvers(words: Sequence[str]) -> int:
    """Run ``lipyomo solvers``: list installed solvers, and commands that install the others."""
    from lipyomo.cli.settings import name_solver_files
    from lipyomo.solvers import solver_table

    parser = Parser("lipyomo solvers", "Which solvers can be used here, in the order of 'auto'.")
    add_options(parser, "--solvers-file", "--json", "--debug")
    arguments = parser.parse_args(words)
    name_solver_files(arguments.solvers_file)
    rows = solver_table(arguments.solvers_file)
    if arguments.json:
        print(json.dumps({row.name: asdict(row) for row in rows}))
        return 0
    print_table(
        ("solver", "usable", "version", "licence", "size limit", "auto", "install with"),
        [
            (
                row.name,
                "yes" if row.usable else ("no licence" if row.installed else "no"),
                row.version or "-",
                row.licence or "-",
                row.size_limit or ("none" if row.usable else "-"),
                "-" if row.auto is None else str(row.auto),
                "-" if row.installed else row.install or "-",
            )
            for row in rows
        ],
    )
    for row in rows:
        if row.trouble and not row.install:
            print(f"\n{row.name}: {row.trouble}")
    return 0
