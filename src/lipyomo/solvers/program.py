"""External programs, whose output is read while they run, and which can be interrupted."""

from __future__ import annotations

import functools
import io
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from lipyomo.base.errors import SolverError
from lipyomo.base.system.processes import GRACE, end_group

PIECE = 1 << 16
"""Bytes of a line that are read at once, and limit of the length of an `answer`."""


class Program:
    """A program that is run once.

    Parameters
    ----------
    command : sequence of str
    folder : Path, optional
        Its working directory.
    limit : float, optional
        Seconds after which it is interrupted.
    gently : bool, optional
        Whether it gets a signal to finish and `GRACE` seconds before it is killed.

    Attributes
    ----------
    late : bool
        Whether it was interrupted at its time limit.
    return_code : int
        Exit code, once the program has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path | None = None,
        limit: float | None = None,
        gently: bool = True,
    ) -> None:
        self._command, self._folder = command, folder
        self._limit, self._gently = limit, gently
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._timers: list[threading.Timer] = []
        self.return_code = 0
        self.late = False

    def run(self, take: Callable[[str], bool | None]) -> None:
        """Start the program, read its output, and wait for its end.

        Parameters
        ----------
        take : callable
            Called with each line including its end; long lines come in pieces, and the last one may
            be incomplete.  Once it returns True the program is killed.

        Raises
        ------
        SolverError
            If the program cannot be started.
        """
        # In a new session, so that Ctrl-C in the terminal reaches it by `interrupt` only.
        try:
            process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SolverError(f"cannot run {self._command[0]}: {error.strerror}") from None
        self._process = process
        self._started.set()
        with process:
            if self._limit is not None:
                self._after(self._limit, self._end_late)
            out = process.stdout
            while out is not None and (piece := out.readline(PIECE)):
                if take(piece.decode("utf-8", errors="replace")):
                    end_group(process)
                    break
            self.return_code = process.wait()
        for timer in self._timers:
            timer.cancel()

    def interrupt(self) -> None:
        """Interrupt the program; kill it if it does not finish."""
        if not self._started.wait(GRACE) or self._process is None:
            return
        end_group(self._process, self._gently)
        if self._gently:
            self._after(GRACE, functools.partial(end_group, self._process))

    def _end_late(self) -> None:
        self.late = True
        self.interrupt()

    def _after(self, seconds: float, function: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, function)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)


def answer(program: str, *arguments: str) -> str:
    """Return the output of a program that is asked to quit; it is killed after `PIECE` characters.

    Raises
    ------
    SolverError
        If it takes longer than `GRACE` seconds, or cannot be started.
    """
    said = io.StringIO()

    def take(piece: str) -> bool:
        said.write(piece)
        return said.tell() >= PIECE

    child = Program([program, *arguments, "-quit"], limit=GRACE, gently=False)
    child.run(take)
    if child.late:
        raise SolverError(f"{program} did not answer within {GRACE:g} s")
    return said.getvalue()
