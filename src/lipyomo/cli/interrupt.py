"""Ctrl-C: the first one asks the method to finish with its current interval, the second exits."""

from __future__ import annotations

import os
import signal
import sys
import threading

from lipyomo.cli.codes import Exit, Stream

TYPE_CHECKING = False  # as type checkers know it; what is imported here is not safe from Ctrl-C yet
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

CLEAR = b"\r\x1b[2K"
"""Erases the live line before a message."""
MESSAGE = b"lipyomo: finishing with the interval found so far; Ctrl-C again leaves at once\n"
NOTHING = b"lipyomo: interrupted before anything was known\n"


def _say(message: bytes) -> None:
    """Write to stderr, without print, which the signal may have interrupted."""
    os.write(Stream.ERR, (CLEAR if os.isatty(Stream.ERR) else b"") + message)


class Handled:
    """A context in which Ctrl-C calls `handle` in the main thread.

    The same holds for SIGTERM, which `timeout`, batch systems and containers send.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        raise KeyboardInterrupt

    def __enter__(self) -> Any:
        if threading.current_thread() is threading.main_thread():
            signals = (signal.SIGINT, signal.SIGTERM)
            self._before = {each: signal.signal(each, self.handle) for each in signals}
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)


class Politely(Handled):
    """Ctrl-C raises KeyboardInterrupt.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed; a running method then ends with its current interval.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Set `asked`, and raise."""
        self.asked = True
        raise KeyboardInterrupt


class Leaving(Handled):
    """Ctrl-C exits at once, with a fixed message and exit code, while there is no result yet.

    An exception could be raised in the middle of an import or of a clean-up, and end as a
    traceback.
    """

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Exit."""
        _say(NOTHING)
        sys.stdout.flush()
        os._exit(Exit.OPEN)


class Interruption(Handled):
    """The first Ctrl-C sets a flag and the second raises KeyboardInterrupt.

    Use `requested` as ``Settings.should_stop``.

    Attributes
    ----------
    insisted : bool
        Whether Ctrl-C was pressed again, which aborts the method.
    """

    def __init__(self, message: bytes = MESSAGE) -> None:
        super().__init__()
        self._flag = threading.Event()
        self.insisted = False
        self._message = message

    def requested(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._flag.is_set()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Set the flag, or raise if it is set already."""
        if self._flag.is_set():
            self.insisted = True
            raise KeyboardInterrupt
        self._flag.set()
        _say(self._message)
