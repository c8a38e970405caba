"""Shell completion by argcomplete (extra ``completion``).

``eval "$(register-python-argcomplete lipyomo)"`` in a shell's start-up file enables it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence

ASKED = "_ARGCOMPLETE"


def asked_words() -> list[str] | None:
    """Return the words of a command line to be completed; None without such a request."""
    if ASKED not in os.environ:
        return None
    return os.environ.get("COMP_LINE", "").split()[1:]


def complete(parser: argparse.ArgumentParser, subcommands: Iterable[str]) -> None:
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
