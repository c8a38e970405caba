"""The command line: parse, call the library, show the answer."""

from __future__ import annotations

from lipyomo.cli.main import entry_point, main

__all__ = ["entry_point", "main"]
