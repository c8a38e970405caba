"""The table of options, from which all commands take theirs."""

from __future__ import annotations

import math
from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lipyomo.base.quantities import norm_name
from lipyomo.cli.words import (
    cell_counts,
    count,
    file_path,
    names,
    names_and_numbers,
    number,
    ratio,
    seconds_given,
    shell_ends,
)


def value(
    metavar: str, text: str, kind: Callable[[str], Any] | str = str, **more: Any
) -> dict[str, Any]:
    """Return the keywords of an option with a value.

    Parameters
    ----------
    metavar, text : str
    kind : callable or str
        The function that reads the value, or its name in `lipyomo.cli.values` without ``read_``,
        and words that it takes after the text and the option.  That module is imported when the
        option is given.
    **more
        Further keywords of ``add_argument``.
    """
    return {"metavar": metavar, "help": text, "type": kind, **more}


def _choice(
    text: str,
    *values: str,
    default: str | None = None,
    kind: Callable[[str], Any] = str,
) -> dict[str, Any]:
    """Return the keywords of an option with one of a few values."""
    metavar = "|".join(values)
    return value(metavar, text, kind, choices=values, default=default)


def flag(text: str, action: str = "store_true", **more: Any) -> dict[str, Any]:
    """Return the keywords of an option without a value."""
    return {"action": action, "help": text, **more}


def _reader(kind: str, option: str) -> Callable[[str], Any]:
    """Return the function of `lipyomo.cli.values` that reads a kind of value; see `value`."""
    name, *more = kind.split()

    def read(text: str) -> Any:
        return getattr(import_module("lipyomo.cli.values"), f"read_{name}")(text, option, *more)

    return read


COMMON: dict[str, dict[str, Any]] = {
    "NET": value("NET", "an ONNX file", file_path, dest="network"),
    "DATA": value("DATA", ".npz, .npy or .csv: inputs, and labels if there are any", file_path),
    "PLANT": value("PLANT", "one of the field g, with as many outputs as inputs", file_path),
    "PROOF": value("PROOF", "the proof file", file_path),
    "QUERY": value("QUERY", "a VNN-LIB file", file_path),
    "--output-node": value(
        "NODE", "cut the graph at this node or tensor; several: a,b", dest="output"
    ),
    "--network": value(
        "[NAME=]FILE",
        "the ONNX file of a network that the query declares; may be repeated",
        "named",
        action="append",
        default=[],
        dest="networks",
    ),
    "--minus": value("FILE", "of a proof of a difference: the other ONNX file", file_path),
    "--along": value(
        "FILE", "of a proof of 'lipyomo lyapunov': the ONNX file of the field", file_path
    ),
    "--pde": value("FILE", "a Python file with a function residual(u, x)", file_path),
    # the problem
    "--norm": _choice("on the inputs (linf)", "linf", "l1", "l2", default="linf", kind=norm_name),
    "--output-norm": value("NORM", "linf (or |.| of one output), l1, l2, cross or cross(I)"),
    "--functional": value("C", "|c.f| for numbers such as 1,-1 or a .npy file", "numbers"),
    "--margin": value("LABEL", "cross(LABEL): margins of a class", int),
    "--margin-of-label": flag("cross(i), i the row's (or predicted) class"),
    "--entries": value("I,J", "numbers of the outputs, such as 0,2 or 1: (all)", "selection"),
    "--wrt": value("I,...", "inputs that directions move: 0,3 or 5:9, or names (all)", "selection"),
    "--box": value("LO,HI", "numbers or .npy files; or LO:HI of each input", "pair"),
    "--ball": value("CENTER", "a number for all inputs, one for each, or a .npy file", "side"),
    "--polytope": value("FILE", ".npz with A and b: the x with A x <= b", "inequalities"),
    "--everywhere": flag("all of R^d"),
    "--radius": value("R", "of the ball: 0.1, or 8/255", number),
    "--clip": value("LO,HI", "cut a ball or polytope with this box", "pair"),
    "--shell": value(
        "LOW,HIGH", "values of V between which points count, such as 0.1,1", shell_ends
    ),
    # the rows of a data set
    "--inputs": value(
        "A,B,...",
        "columns of the inputs, in the network's order: names, or numbers from 0 on",
        names,
    ),
    "--label-column": value("NAME", "that of labels, or one a class; 'none': there is none", names),
    "--first": value("N", "only the first rows", count(1)),
    "--rows": value(
        "FILE",
        "write rows to this .csv or .jsonl file; a second run goes on there",
        "output ROWS .csv .jsonl",
    ),
    "--threshold": value(
        "T", "class 1 is where one output is above it (0.5 of a probability, 0 of a logit)", float
    ),
    "--increasing": value(
        "I,...", "inputs, by number from 0 on or by name", names_and_numbers, default=()
    ),
    "--decreasing": value(
        "I,...", "inputs, by number from 0 on or by name", names_and_numbers, default=()
    ),
    # the cells of a map
    "--curvature": flag("norms of Hessians"),
    "--values": flag("sizes of the outputs"),
    "--cells": value("NxM", "cells along each divided input: 64x64", cell_counts),
    "--axes": value("I,J", "divided inputs, by number or name (the first ones)", names_and_numbers),
    "--at": value("X", "numbers, or a .npy file, for the others (they range)", "side"),
    "--boxes": value("FILE", ".npy (n, 2, d), or CSV: all lower, then all upper ends", file_path),
    "--until": value("G", "halve cells, without a search, until this gap is left", ratio),
    # the method
    "--method": value("NAME", "see 'lipyomo methods'", default="auto"),
    "--methods": value("A,B,...", "all that apply, if not given", names),
    "--exact": flag("the smallest adversarial perturbation itself, to 1e-6"),
    "--time-limit": value(
        "S", "seconds since the start of the command, or 5m, 1h", seconds_given, default=math.inf
    ),
    "--gap": value("G", "stop at this relative gap: 0.05 or 5%%", ratio, default=0.0),
    "--workers": value("N", "processes (one a core)", count(1)),
    # the answer
    "--eigenvalues": flag("also the least and the largest eigenvalue of Hessians: convex or not"),
    "--contraction": flag(
        "eigenvalues of the symmetric part: below zero, solutions of x' = f(x) contract"
    ),
    "--smoothness": flag("of a proof of 'lipyomo smoothness'"),
    "--plot": value("FILE", "draw the interval over time", "picture"),
    "--proof": value("FILE", "write a proof file, for 'lipyomo verify'", "output PROOF"),
    "--nodes": flag("list the nodes in order"),
    "--vnncomp": flag("answer as VNN-COMP asks: unsat, sat, unknown, timeout"),
    "--markdown": flag("the table of the documentation"),
    "--csv": value("FILE", "write the table", "output DERIVATIVES .csv"),
    "--json": flag("one JSON object on stdout"),
    "--quiet": flag("no progress on stderr"),
}
"""Keywords of ``add_argument`` for each option; names without dashes are positional."""

RARE: dict[str, dict[str, Any]] = {
    "--help": flag("these lines", "help"),
    "--config": value("FILE", "a TOML file of options, by the same names; others win", file_path),
    "--fix": value(
        "NAME=VALUE",
        "a value for an input: numbers or a .npy file; may be repeated",
        "fix",
        action="append",
        default=[],
    ),
    "--dual-ball": value(
        "FILE",
        "a linear norm: .npz with 'vertices', or with 'A' and 'b', of its dual ball",
        "dual_ball",
        dest="output_norm",
    ),
    "--metric": value(
        "FILE", "a (fair) metric of the inputs instead, by its dual ball", "dual_ball", dest="norm"
    ),
    "--weights": value(
        "W",
        "the norm of a direction v is |v / W|: numbers, one for each input, or a .npy file",
        "numbers",
    ),
    "--directions": value(
        "FILE", ".npy with a matrix T of a row for each input: the norm of J T", "array"
    ),
    "--vnnlib": value("FILE", "the conditions on the inputs in a VNN-LIB file", "query_file"),
    "--part": value("N", "one part of a VNN-LIB file, from 0 on (all)", count(0)),
    "--ball-norm": _choice("of the ball (linf)", "linf", "l2", "l1", kind=norm_name),
    "--formulation": _choice(
        "encoding of the gradient in a MIP or LP", "auto", "adjoint", "tangent", default="auto"
    ),
    "--bounds": _choice(
        "tightest relaxation of pre-activations", "auto", "interval", "linear", "lp", default="auto"
    ),
    "--option": value(
        "NAME=VALUE", "an option of the method; may be repeated", action="append", default=[]
    ),
    "--solver": value("NAME", "see 'lipyomo solvers'", default="auto"),
    "--solvers-file": value("FILE", "another solvers.toml", file_path),
    "--cross-check": value("NAME", "solve again with this solver; disagreement is an error"),
    "--trust-solver": flag(
        "take a MIP solver's optimum at its word, without a check by branch and bound",
        "store_false",
        dest="check_claims",
    ),
    "--tolerance": value(
        "T", "slopes above minus this share of the largest one are not negative", float
    ),
    "--no-radii": flag("only the verdict at R"),
    "--largest": flag("--until is about the largest constant only"),
    "--memory-limit": value(
        "SIZE", "such as 2GB (for the import: half of the machine's memory)", "memory"
    ),
    "--dask": value("ADDRESS", "search on the workers of this dask scheduler"),
    "--jobs": value("N", "methods at a time (1)", count(1), default=1),
    "--checkpoint": value(
        "FILE",
        "branch and bound writes its state here, every few minutes and when it is stopped",
        "output CHECKPOINT",
    ),
    "--resume": flag("go on from the checkpoint, if the file exists"),
    "--overwrite": flag("replace the checkpoint, if the file exists"),
    "--seed": value("N", "of all sampling (0)", count(0), default=0),
    "--upper-only": flag(
        "methods that bound from above: no short search for a lower end before",
        "store_false",
        dest="attain",
    ),
    "--rational": flag("recompute the witness in exact rationals too"),
    "--history": value(
        "FILE", "write the interval over time: .csv, or .json", "output HISTORY .csv .json"
    ),
    "--prove-upper": flag("with --proof: prove the upper end also where it rests on a MIP solver"),
    "--strict": flag(
        "check bounds of smooth networks in ball arithmetic too, about a hundred times slower"
    ),
    "--debug": flag("show tracebacks"),
}
"""Options shown by ``--help-all`` only, so that ``--help`` fits on one screen."""

OPTIONS = COMMON | RARE

OUTPUTS = frozenset(
    name
    for name, keywords in OPTIONS.items()
    if str(keywords.get("type")).startswith(("output", "picture"))
)
"""Options that name files to write."""

KEPT = ("--checkpoint", "--resume", "--overwrite")
"""Options of checkpoints."""

SHOWN = ("--json", "--quiet", "--debug")
"""Options of what is shown."""


def add_options(group: Any, *options: str, **changes: Any) -> None:
    """Add options of the table to a parser or a group of it.

    Parameters
    ----------
    group : ArgumentParser or group
    *options : str
        Names in `OPTIONS`.
    **changes
        Keywords that override those of the table.
    """
    for option in options:
        keywords = {**OPTIONS[option], **changes}
        kind = keywords.get("type")
        if isinstance(kind, str):
            keywords["type"] = _reader(kind, option)
        name = option if option.startswith("-") else keywords.pop("dest", option.lower())
        group.add_argument(name, **keywords)


def add_domain(parser: ArgumentParser, everywhere: bool = True) -> None:
    """Add the options of a domain, with all of R^d if `everywhere`."""
    kinds = ("--box", "--ball", "--polytope", "--vnnlib", *(["--everywhere"] * everywhere))
    domain = parser.add_argument_group(f"domain (one of {', '.join(kinds)})")
    add_options(domain.add_mutually_exclusive_group(), *kinds)
    add_options(domain, "--radius", "--ball-norm", "--clip", "--part")
    if not everywhere:
        parser.set_defaults(everywhere=None)


def add_norms(parser: ArgumentParser) -> None:
    """Add the options of norms and directions."""
    norms = parser.add_argument_group("norms and directions")
    add_options(norms, "--norm")
    outputs = norms.add_mutually_exclusive_group()
    add_options(outputs, "--output-norm", "--functional", "--margin", "--dual-ball")
    add_options(norms, "--wrt", "--weights", "--directions")


def add_limits(parser: ArgumentParser) -> None:
    """Add the options of limits and workers of a search."""
    add_options(parser, "--time-limit", "--memory-limit", "--workers", "--dask", "--seed")
