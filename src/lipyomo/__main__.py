"""``python -m lipyomo``."""

from __future__ import annotations

from lipyomo.cli import entry_point

if __name__ == "__main__":
    entry_point()
