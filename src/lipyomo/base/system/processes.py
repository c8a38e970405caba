"""Calls in child processes, which can be killed at any time.

Some solvers run C code that neither checks a time limit nor lets Python handle Ctrl-C.  The child
is a fresh interpreter, so that scripts need no ``if __name__ == "__main__"``.  It has the import
path of this process, without the current folder unless that is named explicitly.
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
"""Seconds between two polls whether to stop."""

MOMENT = 0.3
"""Negligible time in seconds: for transferring results before the end, for exceeding a time limit,
and between two progress reports without improvement."""

PAUSE = 5.0
"""Least seconds between two checkpoints, or two lines of a log."""

GRACE = 3.0
"""Seconds that a child process may take to identify itself, to end on request, and to notice that
its parent is gone."""

_LENGTH = struct.Struct("<Q")

_START = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; "
    "from lipyomo.base.system.processes import serve; serve(int(sys.argv[1]))"
)


def _flags() -> list[str]:
    """Return this interpreter's options, and -P: the current folder is not imported from."""
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
    """Return absolute entries of PYTHONPATH; an empty or relative one is often unintentional."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [entry for entry in entries if os.path.isabs(entry)]


def import_path() -> list[str]:
    """Return the import path of child processes.

    It is that of this process without the current folder, which is kept only if it is named by
    PYTHONPATH, is the folder of the running script or module, or contains lipyomo.
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
    """A fresh interpreter that executes the calls sent to it, one after the other.

    Parameters
    ----------
    threads : int, optional
        Number of threads of its linear algebra.
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

    def send(self, content: bytes) -> None:
        """Send a pickled call: a module-level function, its arguments and its keywords.

        The function receives, as its first argument, a function that sends messages back.
        """
        _write(cast(BinaryIO, self._process.stdin), content)

    def receive(self) -> bytes:
        """Return the next message, pickled; raise EOFError once the process has ended."""
        pipe = cast(BinaryIO, self._process.stdout)
        try:
            return _read(pipe)
        except EOFError:
            pipe.close()
            raise

    def close(self) -> None:
        """Let the process end once it has executed its calls."""
        cast(BinaryIO, self._process.stdin).close()

    def code(self) -> int:
        """Wait for the process and return its exit code."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process and all of its children."""
        end_group(self._process)
        self._process.wait()
        with contextlib.suppress(OSError):  # data that it has not read are lost
            self.close()


def end_group(process: subprocess.Popen[bytes], gently: bool = False) -> None:
    """Kill, or gently interrupt, the leader of a session and its child processes."""
    if os.name != "posix":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.killpg(process.pid, signal.SIGINT if gently else signal.SIGKILL)


def _widen(pipe: BinaryIO) -> None:
    """Increase the buffer of a pipe to a megabyte, on Linux.

    Otherwise each chunk of 64 kB waits for the computing thread of the other process; larger
    buffers than a megabyte require privileges.
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


class ChildProcess:
    """A call in a child process, as a context manager that kills it at the end.

    Iteration yields messages, which are tuples: ``("idle",)`` about every `POLL` seconds without
    any, the messages of the function, and at last ``("done", value)``.

    Parameters
    ----------
    function : callable
        At module level.  Its first argument is a function that sends its arguments as a message.
    *arguments
        Pickled, as messages are.
    threads : int, optional
        Number of threads of the linear algebra.
    """

    def __init__(
        self, function: Callable[..., Any], *arguments: object, threads: int | None = None
    ) -> None:
        content = pickle.dumps((function, arguments, {}))
        self._process = Interpreter(threads)
        self._messages: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._talk, args=(content,), daemon=True).start()

    def _talk(self, content: bytes) -> None:
        """Send the call, and receive messages until the process closes its pipe.

        Messages are unpickled in the thread that iterates, so that errors are raised there.
        """
        try:
            self._process.send(content)
            self._process.close()
            while True:
                self._messages.put(self._process.receive())
        except (EOFError, OSError, ValueError):
            self._messages.put(None)

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages up to ``("done", value)``.

        Raises
        ------
        ProcessDied
        LipyomoError
            As the function raised it.
        """
        why = ""
        while True:
            try:
                content = self._messages.get(timeout=POLL)
            except queue.Empty:
                yield ("idle",)
                continue
            if content is None:
                raise ProcessDied(f"its process died: {why or reason(self._process.code())}")
            message: Message = pickle.loads(content)
            if message[0] == "failed":
                raise message[1]
            if message[0] == "crashed":
                why = message[1]
                continue
            yield message
            if message[0] == "done":
                return

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process and all of its children."""
        self._process.kill()


def reason(code: int) -> str:
    """Return the likely reason why a process died without a message."""
    return f"it may have run out of memory (exit code {code})"


def in_process(
    function: Callable[..., Value], *arguments: object, stop: Callable[[], bool]
) -> Value:
    """Call a module-level function in a child process.

    Parameters
    ----------
    function : callable
    *arguments
        Pickled, as the value is.
    stop : callable
        Polled; the process is killed once it returns True.

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
    with ChildProcess(without_messages, function, *arguments) as child:
        for kind, *said in child:
            if kind == "done":
                return cast(Value, said[0])
            if stop():
                break
    raise SolverError("the solver was stopped before it had an answer")


def without_messages(
    send: object, function: Callable[..., Value], *arguments: object, **keywords: object
) -> Value:
    """Call a function that sends no messages."""
    return function(*arguments, **keywords)


def _end_with(parent: int) -> None:
    """Exit once the parent process is gone, which cannot notify its children if it is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def serve(parent: int) -> None:
    """Execute calls from standard input, and write their messages to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    _end_with(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers' output must not mix with the messages

    turn = threading.Lock()

    def send(*message: object) -> None:
        content = pickle.dumps(message)
        with turn:  # threads of solvers may send messages, too
            _write(answers, content)

    def crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Send the reason of a crash, since standard error is not visible."""
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
        if not gc.isenabled():  # imports for the first call are done, and contain no garbage
            gc.freeze()
            gc.enable()
        try:
            send("done", function(send, *arguments, **keywords))
        except LipyomoError as error:
            send("failed", error)
