"""Ctrl-C: once asks the method to finish with what it has, twice leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

STDERR = 2
MESSAGE = b"lipyomo: finishing with the interval found so far; Ctrl-C again leaves at once\n"


class Interruption:
    """A context in which the first Ctrl-C sets a flag and the second raises KeyboardInterrupt.

    Use `requested` as ``Settings.should_stop``.

    Attributes
    ----------
    insisted : bool
        Whether there was a second one, which leaves the method where it was.
    """

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._before: Any = None
        self.insisted = False

    def requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._flag.is_set()

    def __enter__(self) -> Interruption:
        # Handlers can only be set in the main thread; elsewhere the caller keeps its own.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._flag.is_set():
            self.insisted = True
            raise KeyboardInterrupt
        self._flag.set()
        # Not print: the signal may have come in the middle of one.
        os.write(STDERR, MESSAGE)
