"""A parser whose errors are `UsageError`, and that of the main job.

It imports argparse only, so that --help is fast.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from lipyomo.base.errors import nearest_name
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.config import expand
from lipyomo.cli.options import KEPT, OUTPUTS, RARE, SHOWN, add_domain, add_norms, add_options
from lipyomo.cli.streams import warn
from lipyomo.cli.words import UsageError, renamed, values_of
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


ASKED = "_ARGCOMPLETE"
"""Set in the environment of a completion request of the shell, by argcomplete."""

_NEGATIVE = re.compile(r"^-(\d|\.\d|inf)")
_VALUE = re.compile(r"argument (?P<names>--\S+): ")


class _HelpAll(argparse.Action):
    """``--help-all``: shows every option, while ``--help`` fits on one screen."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print the help made by argparse, and exit."""
        print(argparse.ArgumentParser.format_help(parser), end="")
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps texts as written, with a column of options that is wide enough for most."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=22)


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of exiting.

    Parameters
    ----------
    prog, description, epilog : str
        See `argparse.ArgumentParser`.
    screen : str, optional
        What ``--help`` prints; without it, all options but the rare ones.  ``--help-all`` lists
        every option.
    """

    def __init__(
        self, prog: str, description: str, epilog: str | None = None, screen: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._negative_number_matcher = _NEGATIVE  # values such as -1,1 are no options
        self.first_words: tuple[str, ...] = ()
        self._screen = screen
        self.add_argument("--help", "-h", action="help", help="these lines")
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="every option")

    def format_help(self) -> str:
        """Return one screen: the options except the rare ones."""
        if self._screen is not None:
            return self._screen
        formatter = self._get_formatter()
        formatter.add_usage(self._usage(), self._actions, ())
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            kept = (a for a in group._group_actions if RARE.keys().isdisjoint(a.option_strings))
            formatter.add_arguments(kept)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _usage(self) -> str:
        """Return the usage line, with the required arguments only."""
        places = [str(action.metavar) for action in self._actions if not action.option_strings]
        needed = [
            f"{action.option_strings[0]} {action.metavar}"
            for action in self._actions
            if action.option_strings and action.required
        ]
        return " ".join([self.prog, *places, *needed, "[OPTIONS]"])

    def parse_args(self, args: Any = (), namespace: Any = None) -> Any:
        """Parse words, or answer a completion request of the shell."""
        _complete(self, self.first_words)
        known, files = self._option_string_actions, []
        words = [renamed(word, known, warn) for word in args]
        if CONFIG in known:
            files = [f"{option}={text}" for option, text in values_of(words) if option == CONFIG]
            words = expand(self, words)
        _check_files([*files, *words])
        found = super().parse_args(words, namespace)
        for action in self._actions:
            # argparse treats the value of ``--option=--`` as a separator and drops it
            alone = action.nargs is None and not isinstance(action, argparse._AppendAction)
            value = getattr(found, action.dest, None)
            if alone and isinstance(value, list) and not value:
                self.error(f"argument {'/'.join(action.option_strings)}: expected one argument")
        return found

    def error(self, message: str) -> NoReturn:
        """Raise an error instead of printing the usage and exiting with 2."""
        wrong = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        names = {option.lstrip("-"): option for option in self._option_string_actions}
        value = _VALUE.match(message)
        if wrong:
            remedy = nearest_name(wrong[1].lstrip("-"), names, f"see {self.prog} --help", "--{}")
        elif "not allowed with" in message:
            remedy = "leave one of them out"
        elif value:
            option = value["names"].split("/")[0]
            action = self._option_string_actions[option]
            form = f"{option} {action.metavar or ''}".strip()
            remedy = f"{form}: {str(action.help).replace('%%', '%')}"
        elif "are required:" in message:
            remedy = self._usage()
        else:
            remedy = f"see {self.prog} --help"
        raise UsageError(f"{message}.  Remedy: {remedy}")


def _check_files(words: Sequence[str]) -> None:
    """Refuse to write a file that another option reads or writes as well.

    Raises
    ------
    UsageError
        If there is such a file.
    """
    named = list(values_of(words))
    if not any(option in OUTPUTS for option, _ in named):
        return
    from lipyomo.base.system import outputs

    for place, (option, path) in enumerate(named):
        for other, text in named[:place] + named[place + 1 :] if option in OUTPUTS else []:
            if any(outputs.same_file(path, part) for part in {text, *text.split(",")} if part):
                use = f"written, as {other}," if other in OUTPUTS else "read"
                raise UsageError(
                    f"{option}: {outputs.shown(path)} is {use} as well.  Remedy: give another name"
                )


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
    add_norms(parser)
    add_domain(parser)
    method = parser.add_argument_group("method")
    add_options(method, "--method", help="see 'lipyomo methods' (auto: an exact one)")
    add_options(method, "--formulation", "--bounds", "--option", "--solver", "--solvers-file")
    add_options(
        method, "--cross-check", "--trust-solver", "--time-limit", "--memory-limit", "--gap"
    )
    text = "processes of a search, or threads of a MIP solver"
    add_options(method, "--workers", help=text)
    add_options(method, "--dask")
    add_options(method, *KEPT, "--seed", "--upper-only", "--rational")
    report = parser.add_argument_group("report")
    add_options(report, "--plot", "--history", "--proof", "--prove-upper", *SHOWN)


def asked_words() -> list[str] | None:
    """Return the words of a command line to be completed; None without such a request."""
    if ASKED not in os.environ:
        return None
    return os.environ.get("COMP_LINE", "").split()[1:]


def _complete(parser: argparse.ArgumentParser, subcommands: Iterable[str]) -> None:
    """Answer a completion request of the shell, if there is one, and exit.

    Parameters
    ----------
    parser : ArgumentParser
    subcommands : iterable of str
        Words that are allowed in place of the first file.
    """
    if ASKED not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    of_subcommand = parser.prog.split()[1:]
    if of_subcommand:  # number of words before those of the parser
        os.environ[ASKED] = str(1 + len(of_subcommand))
    argcomplete.autocomplete(parser, default_completer=_Files(list(subcommands)))


class _Files:
    """Completes file names and subcommands."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __call__(self, prefix: str, **_: object) -> list[str]:
        from argcomplete.completers import FilesCompleter

        files: list[str] = list(FilesCompleter()(prefix))
        return files + [word for word in self._words if word.startswith(prefix)]
