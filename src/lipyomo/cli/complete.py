"""Shell completion by argcomplete (extra ``completion``).

``eval "$(register-python-argcomplete lipyomo)"`` in a shell's start-up file switches it on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence

ASKED = "_ARGCOMPLETE"


def asked_words() -> list[str] | None:
    """The words of the command line that a shell wants completed; None if none asks."""
    if ASKED not in os.environ:
        return None
    return os.environ.get("COMP_LINE", "").split()[1:]


def complete(parser: argparse.ArgumentParser, subcommands: Iterable[str]) -> None:
    """Answer the shell, if it asks, with the options of `parser`, and leave.

    Parameters
    ----------
    parser : ArgumentParser
    subcommands : iterable of str
        Words that may stand in the place of the first file.
    """
    if ASKED not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    of_subcommand = parser.prog.split()[1:]
    if of_subcommand:  # how many words stand before those of the parser
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
