"""Ctrl-C: once asks the method to finish with what it has, twice leaves at once."""

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
"""Erases the live line, so that the message does not stand behind it."""
MESSAGE = b"lipyomo: finishing with the interval found so far; Ctrl-C again leaves at once\n"
NOTHING = b"lipyomo: interrupted before anything was known\n"


def _say(message: bytes) -> None:
    """Write to stderr; not by print, for the signal may have come in the middle of one."""
    os.write(Stream.ERR, (CLEAR if os.isatty(Stream.ERR) else b"") + message)


class Handled:
    """A context in which Ctrl-C calls `handle`, in the main thread; other threads hear of none.

    So does a polite request to end (SIGTERM), as `timeout`, batch systems and containers send it.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Answer the signal."""
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
        Whether there was one: a method that was under way ends with what it has, and says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember, and raise."""
        self.asked = True
        raise KeyboardInterrupt


class Leaving(Handled):
    """Before anything is known, Ctrl-C leaves at once, always with the same words and exit code.

    An exception would not do: it can come in the middle of an import or of another's clean-up, and
    end as a traceback.
    """

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Leave."""
        _say(NOTHING)
        sys.stdout.flush()
        os._exit(Exit.OPEN)


class Interruption(Handled):
    """The first Ctrl-C sets a flag and the second raises KeyboardInterrupt.

    Use `requested` as ``Settings.should_stop``.

    Attributes
    ----------
    insisted : bool
        Whether there was a second one, which leaves the method where it was.
    """

    def __init__(self, message: bytes = MESSAGE) -> None:
        super().__init__()
        self._flag = threading.Event()
        self.insisted = False
        self._message = message

    def requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._flag.is_set()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Set the flag, or leave."""
        if self._flag.is_set():
            self.insisted = True
            raise KeyboardInterrupt
        self._flag.set()
        _say(self._message)
