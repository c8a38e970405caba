"""A parser whose errors are `UsageError`; only argparse is imported, for --help to be quick."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from typing import Any, NoReturn

from lipyomo.cli.complete import complete
from lipyomo.cli.config import OPTION as CONFIG
from lipyomo.cli.config import expand
from lipyomo.cli.streams import warn
from lipyomo.cli.words import UsageError, check_files, renamed, values_of

_NEGATIVE = re.compile(r"^-(\d|\.\d|inf)")


class _HelpAll(argparse.Action):
    """``--help-all``: every option, where ``--help`` is one screen."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print the help that argparse makes, and leave."""
        print(argparse.ArgumentParser.format_help(parser), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of leaving the program.

    Parameters
    ----------
    prog, description, epilog : str
        As of `argparse.ArgumentParser`.
    screen : str, optional
        What ``--help`` prints instead of all options, which ``--help-all`` then lists.
    """

    def __init__(
        self, prog: str, description: str, epilog: str | None = None, screen: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._negative_number_matcher = _NEGATIVE  # values such as -1,1 are no options
        self.first_words: tuple[str, ...] = ()
        self._screen = screen
        if screen is not None:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="list every option")

    def format_help(self) -> str:
        """One screen, or all options."""
        return super().format_help() if self._screen is None else self._screen

    def parse_args(self, *words: Any, **options: Any) -> Any:
        """Parse the words, or answer a shell that wants them completed."""
        complete(self, self.first_words)
        if words:
            known = self._option_string_actions
            words = ([renamed(word, known, warn) for word in words[0]], *words[1:])
        if words and CONFIG in self._option_string_actions:
            named = [f"{option}={text}" for option, text in values_of(words[0]) if option == CONFIG]
            words = (expand(self, words[0]), *words[1:])
            check_files([*named, *words[0]])
        elif words:
            check_files(words[0])
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
        wrong = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        close = get_close_matches(wrong[1], self._option_string_actions, n=1) if wrong else []
        remedy = f"did you mean {close[0]}?" if close else f"see {self.prog} --help"
        raise UsageError(f"{message}.  Remedy: {remedy}")
