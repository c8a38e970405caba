"""Calls in processes of their own, which can be ended at any moment.

Some solvers compute in C code that neither looks at a clock nor lets Python hear Ctrl-C.  The
process is a fresh interpreter, so that scripts need no guard around their main part.  It imports
from where this one does, except from the current folder, which nobody has named.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias, TypeVar, cast

from lipyomo.base.errors import LipyomoError, ProcessDied, SolverError
from lipyomo.base.system.memory import MEGABYTE

Value = TypeVar("Value")

Message: TypeAlias = tuple[Any, ...]

POLL = 0.05
"""Seconds between two questions whether to stop."""

MOMENT = 0.3
"""Seconds that nobody minds: what was found so long before the end still arrives, what runs may end
so much late, and reports of progress that bring nothing better are at least so far apart."""

PAUSE = 5.0
"""Least seconds between two savings of what is known so far, or two lines about it in a log."""

GRACE = 3.0
"""Seconds that another process may take to say what it is, to end after it was told to, and to
notice that the one that asked is gone."""

_LENGTH = struct.Struct("<Q")

_START = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; "
    "from lipyomo.base.system.processes import serve; serve(int(sys.argv[1]))"
)


def _flags() -> list[str]:
    """The options that this interpreter was started with, and none that trusts its folder."""
    given = sys.flags
    letters = {
        "-I": given.isolated,
        "-E": given.ignore_environment,
        "-s": given.no_user_site,
        "-S": given.no_site,
        "-B": given.dont_write_bytecode,
        "-b": given.bytes_warning,
        "-O": given.optimize,
    }
    words = [letter for letter, times in letters.items() for _ in range(times)]
    words += [f"-W{warning}" for warning in sys.warnoptions]
    for name, value in sys._xoptions.items():
        words += ["-X", name if value is True else f"{name}={value}"]
    return [*words, "-P"]


def _named_folders() -> list[str]:
    """What PYTHONPATH names: an empty or relative entry is the current folder by accident."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [entry for entry in entries if os.path.isabs(entry)]


def import_path() -> list[str]:
    """Where a process that this one starts may import from.

    That is where this one does, but for the current folder.  It stays if it is named: by
    PYTHONPATH, by the script or module that runs, or because it holds lipyomo.
    """
    named = {str(Path(__file__).resolve().parents[3])}
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) is not None:
        spec = getattr(main, "__spec__", None)
        depth = 0 if spec is None else spec.name.count(".")
        named.add(str(Path(cast(str, main.__file__)).resolve().parents[depth]))
    if not sys.flags.ignore_environment:
        named.update(os.path.realpath(entry) for entry in _named_folders())
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it has been removed
        here = ""
    places = [(entry, os.path.realpath(entry)) for entry in sys.path if entry]
    return [entry for entry, place in places if place != here or place in named]


class Interpreter:
    """A fresh interpreter that calls what it is sent, one call after the other, until it is ended.

    Parameters
    ----------
    threads : int, optional
        Of its linear algebra.
    """

    def __init__(self, threads: int | None = None) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(_named_folders())}
        if threads is not None:
            names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            environment |= dict.fromkeys(names, str(threads))
        self._process = subprocess.Popen(
            [sys.executable, *_flags(), "-c", _START, str(os.getpid()), *import_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process alone
        )
        for pipe in (self._process.stdin, self._process.stdout):
            _widen(cast(BinaryIO, pipe))

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, content: bytes) -> None:
        """Send a pickled call: a function of a module, its arguments and its keywords.

        The function's first argument sends its own arguments as a message.
        """
        _write(cast(BinaryIO, self._process.stdin), content)

    def receive(self) -> bytes:
        """The next message, pickled; EOFError once the process has ended."""
        pipe = cast(BinaryIO, self._process.stdout)
        try:
            return _read(pipe)
        except EOFError:
            pipe.close()
            raise

    def close(self) -> None:
        """Let it end once it has done what it was sent."""
        cast(BinaryIO, self._process.stdin).close()

    def code(self) -> int:
        """Its exit code, waited for."""
        return self._process.wait()

    def kill(self) -> None:
        """End the process and all of its children."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        except ProcessLookupError:
            pass  # it is gone already
        self._process.wait()
        with contextlib.suppress(OSError):  # what it has not read is lost
            self.close()


def _widen(pipe: BinaryIO) -> None:
    """Let messages of a megabyte fit into a pipe, on Linux.

    Else each piece of 64 kB waits for the thread that computes in the other process; more than a
    megabyte is for administrators.
    """
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # the user may have no more of that width
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, MEGABYTE)


def _write(pipe: BinaryIO, content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def _read(pipe: BinaryIO) -> bytes:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return content


class Child:
    """A context with a call in a process of its own, which ends with it; iterate over its messages.

    They are tuples: ``("idle",)`` now and then while nothing comes, what the function tells, and
    last ``("done", value)``, ``("failed", error)`` for an error of lipyomo, or ``("died", why)``.

    Parameters
    ----------
    function : callable
        Of a module.  Its first argument is a function that sends its own arguments as a message.
    *arguments
        They travel by pickle, and so do messages.
    threads : int, optional
        Of the linear algebra.
    """

    def __init__(
        self, function: Callable[..., Any], *arguments: object, threads: int | None = None
    ) -> None:
        content = pickle.dumps((function, arguments, {}))
        self._process = Interpreter(threads)
        self._messages: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._talk, args=(content,), daemon=True).start()

    def _talk(self, content: bytes) -> None:
        """Hand the call over, and listen until the process closes its end.

        What comes is unpickled by whoever asks for it, who is to see what goes wrong there.
        """
        try:
            self._process.send(content)
            self._process.close()
            while True:
                self._messages.put(self._process.receive())
        except (EOFError, OSError, ValueError):
            self._messages.put(None)

    def __iter__(self) -> Iterator[Message]:
        why = ""
        while True:
            try:
                content = self._messages.get(timeout=POLL)
            except queue.Empty:
                yield ("idle",)
                continue
            message: Message = ("died",) if content is None else pickle.loads(content)
            if message[0] == "crashed":
                why = message[1]
            elif message[0] == "died":
                yield ("died", why or reason(self._process.code()))
            else:
                yield message

    def answers(self) -> Iterator[Message]:
        """The messages up to ``("done", value)``.

        Raises
        ------
        ProcessDied
        LipyomoError
            As the function raised it.
        """
        for message in self:
            if message[0] == "failed":
                raise message[1]
            if message[0] == "died":
                raise ProcessDied(f"the solver's process died: {message[1]}")
            yield message
            if message[0] == "done":
                return

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and all of its children."""
        self._process.kill()


def reason(code: int) -> str:
    """Why a process may have ended by itself that did not say it."""
    return f"it may have run out of memory (exit code {code})"


def in_process(
    function: Callable[..., Value], *arguments: object, stop: Callable[[], bool]
) -> Value:
    """Call a function of a module in a process of its own.

    Parameters
    ----------
    function : callable
    *arguments
        They travel by pickle, and so does the value.
    stop : callable
        Polled; True ends the process.

    Returns
    -------
    value

    Raises
    ------
    SolverError
        If it was stopped, or the process died.
    LipyomoError
        As `function` raised it.
    """
    with Child(without_messages, function, *arguments) as child:
        for kind, *said in child.answers():
            if kind == "done":
                return cast(Value, said[0])
            if stop():
                break
    raise SolverError("the solver was stopped before it had an answer")


def without_messages(
    send: object, function: Callable[..., Value], *arguments: object, **keywords: object
) -> Value:
    """Call a function that has nothing to tell on its way."""
    return function(*arguments, **keywords)


def _end_with(parent: int) -> None:
    """End this process once the one that started it is gone: a killed one could not say so."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def serve(parent: int) -> None:
    """The other process: calls from standard input, their messages to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides what it means
    _end_with(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what solvers print is no answer

    turn = threading.Lock()

    def send(*message: object) -> None:
        content = pickle.dumps(message)
        with turn:  # a solver's thread may tell, too
            _write(answers, content)

    def crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Say why this process ends, which nobody would see on its standard error."""
        place = traceback.extract_tb(trace)[-1:]
        where = "".join(f" in line {spot.lineno} of {spot.filename}" for spot in place)
        memory = issubclass(kind, MemoryError)
        send("crashed", "it ran out of memory" if memory else f"{kind.__name__}: {error}{where}")

    sys.excepthook = crash
    while True:
        try:
            content = _read(sys.stdin.buffer)
        except EOFError:
            return
        function, arguments, keywords = pickle.loads(content)
        if not gc.isenabled():  # what the first call needs is imported: there is no garbage in it
            gc.freeze()
            gc.enable()
        try:
            send("done", function(send, *arguments, **keywords))
        except LipyomoError as error:
            send("failed", error)
