"""The options of the main job, ``lipyomo NET ...``; only argparse is imported here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
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
            if alone and getattr(found, action.dest, None) == []:
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


def add_output(group: Any, quiet: bool = True) -> None:
    """Add how a command tells what it found: --json, --quiet and --debug."""
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")
    if quiet:
        group.add_argument("--quiet", action="store_true", help="no progress on stderr")
    group.add_argument("--debug", action="store_true", help="show tracebacks")


def check_file(path: Path, option: str, remedy: str = "") -> None:
    """Find out before a long run whether the file that an option names can be written.

    Raises
    ------
    UsageError
        If the name is empty or a folder, or its folder is missing.
    """
    if not path.name or path.is_dir():
        raise UsageError(f"{option}: '{path}' is not the name of a file{remedy}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option}: there is no folder '{path.parent}'")


def ratio(text: str) -> float:
    """Read ``0.05`` or ``5%``."""
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


def main_parser() -> Parser:
    """Return the parser of the main job."""
    parser = Parser("lipyomo", DESCRIPTION, EPILOG)
    parser.add_argument("network", metavar="NET", type=Path, help="an ONNX file")
    add_config(parser)
    parser.add_argument("--version", action="version", version=f"lipyomo {__version__}")
    parser.add_argument(
        "--output", metavar="NODE", help="cut the graph at this node or tensor (the logits)"
    )
    add_problem(parser)
    _add_method(parser)
    _add_report(parser)
    return parser


def add_config(parser: Parser) -> None:
    """Add ``--config``; `Parser.parse_args` puts the file's options in its place."""
    parser.add_argument(
        CONFIG, metavar="FILE", help="a TOML file of options, by the same names; others win"
    )


def add_problem(parser: Parser) -> None:
    """Add the options that make a problem of a network: norms and a domain."""
    norms = parser.add_argument_group("norms")
    norms.add_argument(
        "--norm", choices=("linf", "l1", "l2"), default="linf", help="on the inputs (linf)"
    )
    outputs = norms.add_mutually_exclusive_group()
    outputs.add_argument(
        "--output-norm",
        metavar="NORM",
        help="linf, l1, l2, cross or cross(I); default: |.| for one output, else linf",
    )
    outputs.add_argument(
        "--functional", metavar="C", help="|c.f| for numbers such as 1,-1 or a .npy file"
    )
    outputs.add_argument(
        "--margin", metavar="LABEL", type=int, help="cross(LABEL): margins of a class"
    )
    outputs.add_argument(
        "--dual-ball",
        metavar="FILE",
        type=Path,
        help="a linear norm: .npz with 'vertices', or with 'A' and 'b', of its dual ball",
    )
    domain = parser.add_argument_group("domain (one of --box, --ball, --polytope, --everywhere)")
    kinds = domain.add_mutually_exclusive_group()
    kinds.add_argument("--box", metavar="LO,HI", help="numbers, or .npy files with one per input")
    kinds.add_argument("--ball", metavar="CENTER", help="a .npy file, or a number for all inputs")
    kinds.add_argument(
        "--polytope", metavar="FILE", type=Path, help=".npz with A and b: the x with A x <= b"
    )
    kinds.add_argument("--everywhere", action="store_true", help="all of R^d")
    domain.add_argument("--radius", metavar="R", type=float, help="of the ball")
    domain.add_argument("--ball-norm", choices=("linf", "l2", "l1"), help="of the ball (linf)")
    domain.add_argument("--clip", metavar="LO,HI", help="cut a ball or polytope with this box")


def _add_method(parser: Parser) -> None:
    method = parser.add_argument_group("method")
    method.add_argument(
        "--method",
        default="auto",
        metavar="NAME",
        help="auto, mip, bnb, lp, interval, ...: see 'lipyomo methods' (auto: an exact one; mip "
        "if a solver or formulation is asked for)",
    )
    method.add_argument(
        "--formulation",
        choices=("auto", "adjoint", "tangent"),
        default="auto",
        help="encoding of the gradient in a MIP or LP",
    )
    method.add_argument(
        "--bounds",
        choices=("auto", "interval", "linear", "lp"),
        default="auto",
        help="highest rung of the bound ladder",
    )
    method.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the method; may be repeated",
    )
    method.add_argument("--solver", default="auto", metavar="NAME", help="see 'lipyomo solvers'")
    method.add_argument(
        "--solvers", metavar="FILE", type=Path, help="another solvers.toml", dest="solvers_file"
    )
    method.add_argument(
        "--cross-check",
        metavar="NAME",
        help="solve again with this solver; disagreement is an error",
    )
    method.add_argument(
        "--time-limit", type=float, metavar="S", help="seconds since the start of the command"
    )
    method.add_argument(
        "--memory-limit",
        type=float,
        metavar="MB",
        help="megabytes (for the import: half of the machine's memory)",
    )
    method.add_argument(
        "--gap", type=ratio, default=0.0, metavar="G", help="stop at this relative gap: 0.05 or 5%%"
    )
    method.add_argument(
        "--threads",
        "--workers",
        type=int,
        metavar="N",
        help="threads of a solver, processes of branch and bound",
    )
    method.add_argument(
        "--dask", metavar="ADDRESS", help="branch and bound on the workers of this dask scheduler"
    )
    method.add_argument(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        help="branch and bound writes its state here every few minutes, and when it is stopped",
    )
    method.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint, if the file exists"
    )
    method.add_argument("--seed", type=int, default=0, metavar="N", help="of all sampling (0)")
    method.add_argument(
        "--upper-only",
        action="store_true",
        help="methods that bound from above: no short search for a lower end before",
    )
    method.add_argument(
        "--rational", action="store_true", help="recompute the witness in exact rationals too"
    )


def _add_report(parser: Parser) -> None:
    report = parser.add_argument_group("report")
    report.add_argument("--plot", metavar="FILE", type=Path, help="draw the interval over time")
    report.add_argument(
        "--history",
        metavar="FILE",
        type=Path,
        help="write the interval over time: .csv, or .json",
    )
    report.add_argument(
        "--proof", metavar="FILE", type=Path, help="write a proof file, for 'lipyomo verify'"
    )
    report.add_argument(
        "--certify",
        action="store_true",
        help="with --proof: prove the upper end also where it rests on a MIP solver",
    )
    add_output(report)
