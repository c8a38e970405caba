"""A parser whose errors are `UsageError`; it imports argparse only, so that --help is fast."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from lipyomo.base.errors import nearest_name
from lipyomo.cli.complete import complete
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.config import expand
from lipyomo.cli.streams import warn
from lipyomo.cli.words import RARE, UsageError, check_files, renamed, values_of

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
            kept = (a for a in group._group_actions if RARE.isdisjoint(a.option_strings))
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
        complete(self, self.first_words)
        known, files = self._option_string_actions, []
        words = [renamed(word, known, warn) for word in args]
        if CONFIG in known:
            files = [f"{option}={text}" for option, text in values_of(words) if option == CONFIG]
            words = expand(self, words)
        check_files([*files, *words])
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
