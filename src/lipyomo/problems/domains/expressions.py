"""Parser of the S-expressions of SMT-LIB and VNN-LIB files, with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lipyomo.base.errors import DomainError
from lipyomo.base.system.memory import DEEPEST

_TOKEN = re.compile(
    r'(?P<space>\s+|;[^\n]*)|(?P<bracket>[()])|"[^"]*"|(?:[^\s()";\[\]]+\s*)?\[[^\]]*\]'
    r'|[^\s()";\[\]]+'
)
"""Tokens: spaces and comments, parentheses, quoted names, words with indices or shapes, words."""


@dataclass(frozen=True)
class Words:
    """An expression in parentheses or a word, with its line number from 1 on."""

    line: int
    word: str = ""
    parts: tuple[Words, ...] = ()

    @property
    def head(self) -> str:
        """The first word of an expression."""
        return self.parts[0].word if self.parts else ""


def wrong(name: str, words: Words, what: str) -> DomainError:
    """Return an error that names the file and the line."""
    return DomainError(f"{name}, line {words.line}: {what}")


def expressions(text: str, name: str) -> Iterator[Words]:
    """Yield the expressions of a text.

    Parameters
    ----------
    text : str
    name : str
        File name for messages.

    Raises
    ------
    DomainError
        If parentheses do not match, or a word is outside of them.
    """
    line, place = 1, 0
    lines: list[int] = []
    open_: list[list[Words]] = []
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise wrong(name, Words(line), f"'{text[place]}' is not closed")
        token, place = match[0], match.end()
        if token == "(":
            open_.append([])
            lines.append(line)
            if len(open_) > DEEPEST:
                deep = f"over {DEEPEST} parentheses in each other"
                raise wrong(name, Words(line), deep)
        elif token == ")":
            if not open_:
                raise wrong(name, Words(line), "a parenthesis is closed that was not opened")
            done = Words(lines.pop(), parts=tuple(open_.pop()))
            if open_:
                open_[-1].append(done)
            else:
                yield done
        elif match["space"] is None:
            if not open_:
                raise wrong(name, Words(line), f"'{token}' stands outside of parentheses")
            open_[-1].append(Words(line, token))
        line += token.count("\n")
    if open_:
        raise wrong(name, Words(lines[-1]), "a parenthesis is not closed")
