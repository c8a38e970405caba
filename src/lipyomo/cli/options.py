"""The table of options, shared by the main job and several commands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lipyomo.base.quantities import norm_name
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.parser import Parser
from lipyomo.cli.words import count, file_path, new_file, number, ratio, reader, seconds_given
from lipyomo.version import __version__

DESCRIPTION = """\
Local Lipschitz constant of a neural network, smooth or not: a checked interval with a witness.
"""

SCREEN = """\
usage: lipyomo NET.onnx DOMAIN [OPTIONS]
       lipyomo COMMAND ...

The local Lipschitz constant of a neural network: a checked interval, a witness.

domain      --box LO,HI | --ball CENTER --radius R | --polytope FILE |
            --vnnlib FILE | --everywhere; --ball-norm linf|l2|l1, --clip LO,HI
norms       --norm linf|l1|l2 (of the inputs), --output-norm NORM,
            --functional 1,-1, --margin LABEL
method      --method NAME (auto), --gap 5%, --time-limit S, --workers N,
            --checkpoint FILE --resume
answer      --json, --quiet, --plot FILE, --proof FILE, --rational
other       --output-node NODE (cut the graph), --config FILE, --version,
            --help-all (every option)

commands:
  demo       a first run, on a network that comes along
  info       what an ONNX file holds, and what becomes of it
  certify    radii within which points of a data set keep their class
  monotone   whether an output grows or falls with an input
  property   whether the conditions of a VNN-LIB file can be satisfied
  sweep      constants of balls around every row of a data set
  map        constants of thousands of cells, and a picture of them
  range      the least and the largest value of each output
  jacobian   the least and the largest value of each derivative
  smoothness how fast gradients can change; eigenvalues of Hessians
  residual   what a differential equation leaves over, everywhere
  lyapunov   whether V falls along the solutions of x' = g(x)
  compare    several methods side by side
  difference how far two networks can be off, and how much faster one moves
  verify     check a proof that --proof wrote
  methods    every method, with what it guarantees
  solvers    which MIP solvers can be used here

exit codes: 0 what was asked was reached; 2 an interval that is still open;
1 wrong options or input, or a failure

  lipyomo net.onnx --box 0,1
  lipyomo net.onnx --ball image.npy --radius 0.1 --clip 0,1 --margin 3
"""
"""What ``lipyomo --help`` prints: one screen."""

EPILOG = """\
exit codes:
  0  what was asked was reached: the exact constant, the --gap, or the value of a method that
     guarantees no more than a bound
  2  only bounds are known: time limit, Ctrl-C (once to end in good order, twice to leave at once)
  1  the input was wrong, or something failed, such as writing a file beside the answer; one
     sentence on stderr says what

examples:
  lipyomo net.onnx --box 0,1
  lipyomo net.onnx --norm l1 --output-norm cross --box lo.npy,hi.npy --time-limit 60
  lipyomo net.onnx --ball image.npy --radius 0.1 --clip 0,1 --margin 3 --json
"""


def value(metavar: str, text: str, kind: Callable[[str], Any] = str, **more: Any) -> dict[str, Any]:
    """Return the keywords of an option with a value."""
    return {"metavar": metavar, "help": text, "type": kind, **more}


def _choice(text: str, *values: str, default: str | None = None) -> dict[str, Any]:
    """Return the keywords of an option with one of a few values."""
    return {"choices": values, "metavar": "|".join(values), "default": default, "help": text}


def norm(text: str, *values: str, default: str | None = None) -> dict[str, Any]:
    """Return the keywords of an option that is a norm; ``2``, ``L2`` and ``inf`` are accepted."""
    return {**_choice(text, *values, default=default), "type": norm_name}


def flag(text: str, action: str = "store_true", **more: Any) -> dict[str, Any]:
    """Return the keywords of an option without a value."""
    return {"action": action, "help": text, **more}


OPTIONS: dict[str, dict[str, Any]] = {
    "NET": {"dest": "network", "type": file_path, "help": "an ONNX file"},
    CONFIG: value("FILE", "a TOML file of options, by the same names; others win"),
    "--output-node": value(
        "NODE", "cut the graph at this node or tensor; several: a,b", dest="output"
    ),
    "--fix": value(
        "NAME=VALUE",
        "a value for an input: numbers or a .npy file; may be repeated",
        reader("values.read_fix"),
        action="append",
        default=[],
    ),
    # the problem
    "--norm": norm("on the inputs (linf)", "linf", "l1", "l2", default="linf"),
    "--output-norm": value("NORM", "linf (or |.| of one output), l1, l2, cross or cross(I)"),
    "--functional": value(
        "C",
        "|c.f| for numbers such as 1,-1 or a .npy file",
        reader("arrays.read_numbers", "--functional"),
    ),
    "--margin": value("LABEL", "cross(LABEL): margins of a class", int),
    "--dual-ball": value(
        "FILE",
        "a linear norm: .npz with 'vertices', or with 'A' and 'b', of its dual ball",
        reader("values.read_dual_ball", "--dual-ball"),
        dest="output_norm",
    ),
    "--wrt": value(
        "I,...",
        "inputs that directions move: 0,3 or 5:9, or names (all)",
        reader("values.read_selection", "--wrt"),
    ),
    "--weights": value(
        "W",
        "the norm of a direction v is |v / W|: numbers, one for each input, or a .npy file",
        reader("arrays.read_numbers", "--weights"),
    ),
    "--directions": value(
        "FILE",
        ".npy with a matrix T of a row for each input: the norm of J T",
        reader("arrays.read_array", "--directions"),
    ),
    "--box": value(
        "LO,HI",
        "numbers or .npy files; or LO:HI of each input",
        reader("arrays.read_pair", "--box"),
    ),
    "--ball": value(
        "CENTER",
        "a number for all inputs, one for each, or a .npy file",
        reader("arrays.read_side", "--ball"),
    ),
    "--polytope": value(
        "FILE",
        ".npz with A and b: the x with A x <= b",
        reader("arrays.read_inequalities", "--polytope"),
    ),
    "--everywhere": flag("all of R^d"),
    "--vnnlib": value(
        "FILE", "the conditions on the inputs in a VNN-LIB file", reader("values.read_query_file")
    ),
    "--part": value("N", "one part of a VNN-LIB file, from 0 on (all)", count(0)),
    "--radius": value("R", "of the ball: 0.1, or 8/255", number),
    "--ball-norm": norm("of the ball (linf)", "linf", "l2", "l1"),
    "--clip": value(
        "LO,HI", "cut a ball or polytope with this box", reader("arrays.read_pair", "--clip")
    ),
    # the method
    "--method": value("NAME", "see 'lipyomo methods'", default="auto"),
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
    "--time-limit": value(
        "S", "seconds since the start of the command, or 5m, 1h", seconds_given, default=math.inf
    ),
    "--memory-limit": value(
        "SIZE",
        "such as 2GB (for the import: half of the machine's memory)",
        reader("values.read_memory"),
    ),
    "--gap": value("G", "stop at this relative gap: 0.05 or 5%%", ratio, default=0.0),
    "--workers": value("N", "processes (one a core)", count(1)),
    "--dask": value("ADDRESS", "search on the workers of this dask scheduler"),
    "--trust-solver": flag(
        "take a MIP solver's optimum at its word, without a check by branch and bound",
        "store_false",
        dest="check_claims",
    ),
    "--checkpoint": value(
        "FILE",
        "branch and bound writes its state here, every few minutes and when it is stopped",
        new_file("--checkpoint", "CHECKPOINT"),
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
    # the answer
    "--plot": value("FILE", "draw the interval over time", reader("values.read_picture")),
    "--history": value(
        "FILE",
        "write the interval over time: .csv, or .json",
        new_file("--history", "HISTORY", ".csv", ".json"),
    ),
    "--proof": value(
        "FILE", "write a proof file, for 'lipyomo verify'", new_file("--proof", "PROOF")
    ),
    "--prove-upper": flag("with --proof: prove the upper end also where it rests on a MIP solver"),
    "--json": flag("one JSON object on stdout"),
    "--quiet": flag("no progress on stderr"),
    "--debug": flag("show tracebacks"),
}
"""Keywords of ``add_argument`` for each option; names without dashes are positional."""


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
        keywords = {**OPTIONS.get(option, {}), **changes}
        if option.startswith("-"):
            group.add_argument(option, **keywords)
        else:
            group.add_argument(keywords.pop("dest"), **{"metavar": option, **keywords})


def main_parser(screen: str | None = SCREEN) -> Parser:
    """Return the parser of the main job; ``--help`` prints `screen` (None: all options)."""
    parser = Parser("lipyomo", DESCRIPTION, EPILOG, screen)
    add_options(parser, "NET", CONFIG)
    parser.add_argument("--version", action="version", version=f"lipyomo {__version__}")
    add_job(parser)
    return parser


def add_job(parser: Parser) -> None:
    """Add all options of the main job, apart from its network."""
    parser.set_defaults(minus=None)
    add_options(parser, "--output-node", "--fix")
    add_problem(parser)
    method = parser.add_argument_group("method")
    add_options(method, "--method", help="see 'lipyomo methods' (auto: an exact one)")
    add_options(method, "--formulation", "--bounds", "--option", "--solver", "--solvers-file")
    add_options(
        method, "--cross-check", "--trust-solver", "--time-limit", "--memory-limit", "--gap"
    )
    text = "processes of a search, or threads of a MIP solver"
    add_options(method, "--workers", help=text)
    add_options(method, "--dask")
    add_options(
        method, "--checkpoint", "--resume", "--overwrite", "--seed", "--upper-only", "--rational"
    )
    report = parser.add_argument_group("report")
    add_options(
        report, "--plot", "--history", "--proof", "--prove-upper", "--json", "--quiet", "--debug"
    )


def add_problem(parser: Parser) -> None:
    """Add the options of a problem: norms, directions and a domain."""
    add_norms(parser)
    add_domain(parser)


def add_domain(parser: Parser, everywhere: bool = True) -> None:
    """Add the options of a domain, with all of R^d if `everywhere`."""
    kinds = ("--box", "--ball", "--polytope", "--vnnlib", *(["--everywhere"] * everywhere))
    domain = parser.add_argument_group(f"domain (one of {', '.join(kinds)})")
    add_options(domain.add_mutually_exclusive_group(), *kinds)
    add_options(domain, "--radius", "--ball-norm", "--clip", "--part")


def add_norms(parser: Parser) -> None:
    """Add the options of norms and directions."""
    norms = parser.add_argument_group("norms and directions")
    add_options(norms, "--norm")
    outputs = norms.add_mutually_exclusive_group()
    add_options(outputs, "--output-norm", "--functional", "--margin", "--dual-ball")
    add_options(norms, "--wrt", "--weights", "--directions")
