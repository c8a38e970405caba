"""The options of all commands, in one table; only argparse is imported, for --help to be quick."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from lipyomo.cli.complete import complete
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.config import expand
from lipyomo.errors import LipyomoError
from lipyomo.version import __version__

_NEGATIVE = re.compile(r"^-(\d|\.\d|inf)")

DESCRIPTION = """\
Local Lipschitz constant of a piecewise-linear network: a checked interval with a witness.

The main job is "lipyomo NET ...".  Beside it:
  lipyomo solvers      which MIP solvers can be used here, and how to install the others
  lipyomo methods      every method, with what it promises
  lipyomo compare      several methods on several networks, side by side
  lipyomo certify      which points of a data set are robust, within which radius
  lipyomo monotone     inputs with which an output grows or falls, proved or refuted
  lipyomo sweep        constants of balls around every row of a data set
  lipyomo info         what an ONNX file holds, and what becomes of it
  lipyomo demo         the main job on a network that comes along
  lipyomo verify       check a proof file that --proof wrote, without solving anything
"""

EPILOG = """\
exit codes:
  0  what was asked was reached: the exact constant, the --gap, or the value of a method that
     promises no more than a bound
  2  only bounds are known: time limit, Ctrl-C (once to end in good order, twice to leave at once)
  1  the input was wrong, or something failed; one sentence on stderr says what

examples:
  lipyomo net.onnx --box 0,1
  lipyomo net.onnx --norm l1 --output-norm cross --box lo.npy,hi.npy --time-limit 60
  lipyomo net.onnx --ball image.npy --radius 0.1 --clip 0,1 --margin 3 --json
"""


class UsageError(LipyomoError):
    """An option of the command line is wrong."""


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of leaving the program."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

        self.first_words: tuple[str, ...] = ()

    def parse_args(self, *words: Any, **options: Any) -> Any:
        """Parse the words, or answer a shell that wants them completed."""
        complete(self, self.first_words)
        if words and CONFIG in self._option_string_actions:
            words = (expand(self, words[0]), *words[1:])
        found = super().parse_args(*words, **options)
        for action in self._actions:
            # argparse takes the value of ``--option=--`` for a separator and loses it
            alone = action.nargs is None and not isinstance(action, argparse._AppendAction)
            value = getattr(found, action.dest, None)
            if alone and isinstance(value, list) and not value:
                self.error(f"argument {'/'.join(action.option_strings)}: expected one argument")
        return found

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving with 2."""
        raise UsageError(f"{message}.  Remedy: see {self.prog} --help")


def join_negatives(arguments: Sequence[str]) -> list[str]:
    """Attach values such as ``-1,1`` to the option before them.

    argparse takes a word that starts with a dash for an option, so ``--box -1,1`` would fail.
    """
    joined: list[str] = []
    for word in arguments:
        before = joined[-1] if joined else ""
        if _NEGATIVE.match(word) and before.startswith("--") and "=" not in before:
            joined[-1] = f"{before}={word}"
        else:
            joined.append(word)
    return joined


def reader(name: str, *more: str) -> Callable[[str], Any]:
    """A function of `lipyomo.cli.inputs` as the type of an option; imported when it is needed."""

    def read(text: str) -> Any:
        return getattr(import_module("lipyomo.cli.inputs"), name)(text, *more)

    return read


def count(least: int) -> Callable[[str], int]:
    """The type of options that are whole numbers of at least `least`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[-+]?\d+\s*", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number of at least {least}")
        return int(text)

    return read


def new_file(option: str, *endings: str) -> Callable[[str], Path]:
    """The type of options that name a file to write: found out before a long run."""

    def read(text: str) -> Path:
        path = Path(text)
        if not path.name or path.is_dir():
            raise UsageError(f"{option}: '{path}' is not the name of a file")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{option}: there is no folder '{path.parent}'")
        if endings and path.suffix not in endings:
            raise UsageError(f"{option}: '{path}' should end in {' or '.join(endings)}")
        return path

    return read


def ratio(text: str) -> float:
    """Read ``0.05`` or ``5%``."""
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


def names(text: str) -> tuple[str, ...]:
    """Read names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers(kind: type[int] | type[float]) -> Callable[[str], tuple[float, ...]]:
    """The type of options that are numbers between commas."""

    def read(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(part) for part in text.split(",") if part.strip())
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not numbers such as 0,3") from None

    return read


OPTIONS: dict[str, dict[str, Any]] = {
    "NET": {"dest": "network", "type": Path, "help": "an ONNX file"},
    CONFIG: {"metavar": "FILE", "help": "a TOML file of options, by the same names; others win"},
    "--output": {"metavar": "NODE", "help": "cut the graph at this node or tensor (the logits)"},
    # the problem
    "--norm": {"choices": ("linf", "l1", "l2"), "default": "linf", "help": "on the inputs (linf)"},
    "--output-norm": {
        "metavar": "NORM",
        "help": "linf, l1, l2, cross or cross(I); default: |.| for one output, else linf",
    },
    "--functional": {
        "metavar": "C",
        "type": reader("read_functional"),
        "help": "|c.f| for numbers such as 1,-1 or a .npy file",
    },
    "--margin": {"metavar": "LABEL", "type": int, "help": "cross(LABEL): margins of a class"},
    "--dual-ball": {
        "metavar": "FILE",
        "type": reader("read_dual_ball", "--dual-ball"),
        "dest": "output_norm",
        "help": "a linear norm: .npz with 'vertices', or with 'A' and 'b', of its dual ball",
    },
    "--box": {
        "metavar": "LO,HI",
        "type": reader("read_pair", "--box"),
        "help": "numbers, or .npy files with one per input",
    },
    "--ball": {
        "metavar": "CENTER",
        "type": reader("read_side", "--ball"),
        "help": "a .npy file, or a number for all inputs",
    },
    "--polytope": {
        "metavar": "FILE",
        "type": reader("read_rows", "--polytope"),
        "help": ".npz with A and b: the x with A x <= b",
    },
    "--everywhere": {"action": "store_true", "help": "all of R^d"},
    "--radius": {"metavar": "R", "type": float, "help": "of the ball"},
    "--ball-norm": {"choices": ("linf", "l2", "l1"), "help": "of the ball (linf)"},
    "--clip": {
        "metavar": "LO,HI",
        "type": reader("read_pair", "--clip"),
        "help": "cut a ball or polytope with this box",
    },
    # the method
    "--method": {"default": "auto", "metavar": "NAME", "help": "see 'lipyomo methods'"},
    "--formulation": {
        "choices": ("auto", "adjoint", "tangent"),
        "default": "auto",
        "help": "encoding of the gradient in a MIP or LP",
    },
    "--bounds": {
        "choices": ("auto", "interval", "linear", "lp"),
        "default": "auto",
        "help": "highest rung of the bound ladder",
    },
    "--option": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "an option of the method; may be repeated",
    },
    "--solver": {"default": "auto", "metavar": "NAME", "help": "see 'lipyomo solvers'"},
    "--solvers": {
        "metavar": "FILE",
        "type": Path,
        "help": "another solvers.toml",
        "dest": "solvers_file",
    },
    "--cross-check": {
        "metavar": "NAME",
        "help": "solve again with this solver; disagreement is an error",
    },
    "--time-limit": {
        "type": float,
        "default": math.inf,
        "metavar": "S",
        "help": "seconds since the start of the command",
    },
    "--memory-limit": {
        "type": reader("read_memory"),
        "metavar": "MB",
        "help": "megabytes (for the import: half of the machine's memory)",
    },
    "--gap": {
        "type": ratio,
        "default": 0.0,
        "metavar": "G",
        "help": "stop at this relative gap: 0.05 or 5%%",
    },
    "--threads": {
        "type": count(1),
        "metavar": "N",
        "help": "threads of a solver, processes of branch and bound",
    },
    "--workers": {"type": count(1), "metavar": "N", "help": "processes (one a core)"},
    "--dask": {
        "metavar": "ADDRESS",
        "help": "branch and bound on the workers of this dask scheduler",
    },
    "--checkpoint": {
        "metavar": "FILE",
        "type": new_file("--checkpoint"),
        "help": "branch and bound writes its state here every few minutes, and when it is stopped",
    },
    "--resume": {
        "action": "store_true",
        "help": "go on from the checkpoint, if the file exists",
    },
    "--seed": {"type": count(0), "default": 0, "metavar": "N", "help": "of all sampling (0)"},
    "--upper-only": {
        "action": "store_false",
        "dest": "attain",
        "help": "methods that bound from above: no short search for a lower end before",
    },
    "--rational": {
        "action": "store_true",
        "help": "recompute the witness in exact rationals too",
    },
    # the answer
    "--plot": {
        "metavar": "FILE",
        "type": reader("read_picture"),
        "help": "draw the interval over time",
    },
    "--history": {
        "metavar": "FILE",
        "type": new_file("--history", ".csv", ".json"),
        "help": "write the interval over time: .csv, or .json",
    },
    "--proof": {
        "metavar": "FILE",
        "type": new_file("--proof"),
        "help": "write a proof file, for 'lipyomo verify'",
    },
    "--certify": {
        "action": "store_true",
        "help": "with --proof: prove the upper end also where it rests on a MIP solver",
    },
    "--json": {"action": "store_true", "help": "one JSON object on stdout"},
    "--quiet": {"action": "store_true", "help": "no progress on stderr"},
    "--debug": {"action": "store_true", "help": "show tracebacks"},
}
"""Keywords of ``add_argument`` for each option; names without dashes are places."""


def add(group: Any, *options: str, **changes: Any) -> None:
    """Add options of the table to a parser or a group of it.

    Parameters
    ----------
    group : ArgumentParser or group
    *options : str
        Names in `OPTIONS`; of several spellings (``--threads --workers``) the first one.
    **changes
        Other keywords than those of the table.
    """
    for option in options:
        first, *others = option.split()
        keywords = {**OPTIONS.get(first, {}), **changes}
        if first.startswith("-"):
            group.add_argument(first, *others, **keywords)
        else:
            group.add_argument(keywords.pop("dest"), metavar=first, **keywords)


def main_parser() -> Parser:
    """Return the parser of the main job."""
    parser = Parser("lipyomo", DESCRIPTION, EPILOG)
    add(parser, "NET", CONFIG)
    parser.add_argument("--version", action="version", version=f"lipyomo {__version__}")
    add(parser, "--output")
    add_problem(parser)
    method = parser.add_argument_group("method")
    add(
        method,
        "--method",
        help="auto, mip, bnb, lp, interval, ...: see 'lipyomo methods' (auto: an exact one; mip "
        "if a solver or formulation is asked for)",
    )
    add(method, "--formulation", "--bounds", "--option", "--solver", "--solvers", "--cross-check")
    add(method, "--time-limit", "--memory-limit", "--gap", "--threads --workers", "--dask")
    add(method, "--checkpoint", "--resume", "--seed", "--upper-only", "--rational")
    report = parser.add_argument_group("report")
    add(report, "--plot", "--history", "--proof", "--certify", "--json", "--quiet", "--debug")
    return parser


def add_problem(parser: Parser) -> None:
    """Add the options that make a problem of a network: norms and a domain."""
    norms = parser.add_argument_group("norms")
    add(norms, "--norm")
    outputs = norms.add_mutually_exclusive_group()
    add(outputs, "--output-norm", "--functional", "--margin", "--dual-ball")
    domain = parser.add_argument_group("domain (one of --box, --ball, --polytope, --everywhere)")
    kinds = domain.add_mutually_exclusive_group()
    add(kinds, "--box", "--ball", "--polytope", "--everywhere")
    add(domain, "--radius", "--ball-norm", "--clip")
