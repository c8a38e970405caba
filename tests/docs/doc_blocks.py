"""The fenced code blocks of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\{?[\w-]*\}?)(?P<rest>.*)$")


@dataclass(frozen=True)
class Block:
    """A code block: its page, the line of its fence, its language and its text."""

    page: Path
    line: int
    language: str
    text: str


def read_blocks(page: Path) -> list[Block]:
    """All fenced blocks of `page`."""
    blocks: list[Block] = []
    inside: list[str] = []
    opened: tuple[int, str] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened = (number, fence["language"])
                inside = []
        elif line.strip() == "```":
            blocks.append(Block(page, opened[0], opened[1], "\n".join(inside) + "\n"))
            opened = None
        else:
            inside.append(line)
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: the block is never closed")
    return blocks


@dataclass(frozen=True)
class Command:
    """A shell command and the output that the page shows for it ('' if none)."""

    text: str
    expected: str


def read_commands(block: Block) -> list[Command]:
    """Split a ``console`` block: lines with ``$ `` (continued by a backslash), then output."""
    commands: list[Command] = []
    text, expected, continued = "", [], False
    for line in block.text.splitlines():
        if continued:
            text += "\n" + line
        elif line.startswith("$ "):
            if text:
                commands.append(Command(text, "\n".join(expected)))
            text, expected = line[2:], []
        else:
            if not text:
                raise ValueError(f"{block.page}:{block.line}: output before the first command")
            expected.append(line)
            continue
        continued = line.endswith("\\")
    if text:
        commands.append(Command(text, "\n".join(expected)))
    return commands
