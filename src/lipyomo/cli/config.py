"""Options from a TOML file (``--config FILE``), with the same names as on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lipyomo.base.errors import LipyomoError, nearest_name
from lipyomo.cli.streams import warn
from lipyomo.cli.words import renamed, values_of

OPTION = "--config"


class ConfigError(LipyomoError):
    """A file of options cannot be read or is invalid."""


def expand(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Insert the options of a file before the words, so that the command line has precedence.

    Parameters
    ----------
    parser : ArgumentParser
        Defines the known options.
    words : sequence of str

    Raises
    ------
    ConfigError
        If the file cannot be read, or a key is no option.
    """
    files = [text for option, text in values_of(words) if option == OPTION]
    if not files:
        return list(words)
    path = files[-1]
    import tomllib

    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{OPTION}: cannot read '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{OPTION}: '{path}' is not TOML: {error}") from None
    options = {
        name.removeprefix("--"): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and name not in ("--help", "--help-all", "--version", OPTION)
    }
    places = [action for action in parser._actions if not action.option_strings]
    before: list[str] = []
    placed: dict[str, list[str]] = {}
    for key, value in table.items():
        name = renamed(f"--{key}".replace("_", "-"), parser._option_string_actions, warn)[2:]
        if name in options:
            before += _words(path, key, name, options[name], value)
        elif any(action.dest == key for action in places):
            given = value if isinstance(value, list) else [value]
            placed[key] = [_text(path, key, item) for item in given]
        else:
            if name == OPTION[2:]:
                raise ConfigError(
                    f"{OPTION}: '{path}': a file of options cannot name another one.  Remedy: put "
                    "all options into one file"
                )
            known = [*(set(options) - {"help", "version", OPTION[2:]})]
            known += [action.dest for action in places]
            hint = nearest_name(name, known, "see --help for the options")
            raise ConfigError(f"{OPTION}: '{path}': there is no option '{key}'.  Remedy: {hint}")
    first = [word for action in places for word in placed.get(action.dest, ())]
    return [*before, *first, *words]


def _words(path: str, key: str, name: str, action: argparse.Action, value: Any) -> list[str]:
    if action.nargs == 0:  # a flag
        if not isinstance(value, bool):
            raise ConfigError(f"{OPTION}: '{path}': '{key}' must be true or false")
        return [f"--{name}"] if value else []
    if isinstance(value, dict):
        return [f"--{name}={inner}={_text(path, key, item)}" for inner, item in value.items()]
    texts = [_text(path, key, item) for item in (value if isinstance(value, list) else [value])]
    if isinstance(action, argparse._AppendAction):
        return [f"--{name}={text}" for text in texts]
    return [f"--{name}={','.join(texts)}"]


def _text(path: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    raise ConfigError(f"{OPTION}: '{path}': '{key}' must be a number, a text or a list of them")
