"""The command line in processes that begin where its modules are imported already.

A process that takes a second to import what it runs for a tenth is most of what such a test costs.
So one process imports, once for all tests of a worker, and forks for each command: a process with
its own standard streams, folder, limits and signals, as a shell would start it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import IO, Any

HERE = Path(__file__).resolve().parent
IMPORTED = ("scipy.optimize", "onnx", "highspy", "pyomo.environ", "flint", "matplotlib.pyplot")
"""Libraries that a command imports; none of them starts a thread, which a fork would lose."""


class Forked:
    """A command that runs, with what tests use of `subprocess.Popen`."""

    def __init__(self, line: socket.socket, out: IO[str], err: IO[str]) -> None:
        self._line = line
        self._said = line.makefile("r")
        self.stdout, self.stderr = out, err
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self.returncode is None:
            self._line.settimeout(0.0)
            try:
                if self._line.recv(1, socket.MSG_PEEK):
                    self.wait()
            except BlockingIOError:
                return None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            self.returncode = int(self._said.readline())
            self._line.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return what it writes to both streams, once it has ended."""
        parts: dict[IO[str], str] = {}
        readers = [
            Thread(target=lambda one=one: parts.__setitem__(one, one.read()))
            for one in (self.stdout, self.stderr)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                self.kill()
                raise subprocess.TimeoutExpired("lipyomo", timeout or 0.0)
        self.wait(timeout)
        found = parts[self.stdout], parts[self.stderr]
        self.stdout.close()
        self.stderr.close()
        return found


class Forks:
    """The process that forks, and how to ask it for a command."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "asked"))
        self._server = subprocess.Popen(
            [sys.executable, __file__, self._address],
            stdin=subprocess.PIPE,  # whose end, whatever it comes from, is the server's
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"

    def start(self, *words: object, toys: bool = False, file_size: int | None = None) -> Forked:
        """Start a command in the current folder; no file it writes may have more bytes."""
        line = socket.socket(socket.AF_UNIX)
        line.connect(self._address)
        pipes = os.pipe(), os.pipe()
        asked = {
            "words": [str(word) for word in words],
            "folder": os.getcwd(),
            "toys": toys,
            "file_size": file_size,
        }
        socket.send_fds(line, [json.dumps(asked).encode() + b"\n"], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        return Forked(line, *(os.fdopen(end, "r", encoding="utf-8") for end, _ in pipes))

    def run(self, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=120)
        assert process.returncode is not None
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def close(self) -> None:
        """End the process that forks."""
        self._server.kill()
        self._server.wait()
        self._folder.cleanup()


def _serve(address: str) -> None:
    """Import what commands need, then fork for each that is asked for."""
    from importlib import import_module
    from pkgutil import walk_packages

    import lipyomo
    from lipyomo.base.system.imports import importing

    with importing():
        package = [info.name for info in walk_packages(lipyomo.__path__, "lipyomo.")]
        for name in [*IMPORTED, *package]:
            with contextlib.suppress(ModuleNotFoundError):  # an extra that is not installed
                import_module(name)
    with socket.socket(socket.AF_UNIX) as place:
        place.bind(address)
        place.listen(16)
        threads = Path("/proc/self/task")
        assert not threads.is_dir() or len(list(threads.iterdir())) == 1
        print("ready", flush=True)
        while not select.select([place, sys.stdin], [], [])[0].count(sys.stdin):
            line, _ = place.accept()
            if os.fork() == 0:
                place.close()
                os._exit(_attend(line))
            line.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended
                    continue


def _attend(line: socket.socket) -> int:
    """Fork the command itself, tell its number, and its exit code once it has ended."""
    text, streams, _, _ = socket.recv_fds(line, 1 << 16, 2)
    child = os.fork()
    if child == 0:
        line.close()
        os.dup2(streams[0], 1)
        os.dup2(streams[1], 2)
        os.closerange(3, max(streams) + 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = sys.__stderr__ = os.fdopen(
            2, "w", 1, "utf-8", "backslashreplace", closefd=False
        )
        code = 1
        try:
            code = _command(**json.loads(text))
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(bool(leave.code))
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)
    for stream in streams:
        os.close(stream)
    line.sendall(f"{child}\n".encode())
    line.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    return 0


def _command(words: list[str], folder: str, toys: bool, file_size: int | None) -> int:
    """Run the command line as the process's own."""
    import resource

    from lipyomo.cli import entry_point, live

    live.PAUSE = 0.2  # seconds between lines of progress, for which tests wait
    os.chdir(folder)
    sys.argv = ["lipyomo", *words]
    if toys:
        sys.path.insert(0, str(HERE))
        from cli_toys import enrol

        enrol()
    if file_size is not None:
        sys.dont_write_bytecode = True  # Python keeps what is cut off as bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    entry_point()
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
