"""Files beside answers: targets of every kind, full disks, signals; nothing may be lost.

``python tests/fuzz/fuzz_files.py 500`` prints every case that loses something, by its seed.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

import lipyomo
from lipyomo.cli.main import main

MAIN = {"--proof": "p", "--checkpoint": "state", "--history": "h.csv", "--plot": "p.png"}
ROWS = {"--rows": "rows.jsonl", "--plot": "p.png"}
COMMANDS = ("main", "main", "main", "certify", "sweep", "monotone")
TARGETS = (
    "new", "own", "empty", "network", "data", "text", "link to own", "link to network",
    "link to nothing", "link to itself", "hard link to network", "folder", "no folder",
    "in a file", "long", "no ASCII", "full device", "null device", "pipe", "read only",
)  # fmt: skip
TROUBLES = ("none", "none", "full", "full", "killed", "terminated", "interrupted")


def words_of(command: str) -> list[str]:
    """A command that takes part of a second."""
    if command == "main":
        return ["net.onnx", "--box", "-1,1", "--json"]
    more = ["--increasing", "0", "--functional", "1,0"] if command == "monotone" else []
    return [command, "net.onnx", "data.npz", "--radius", "0.1", "--workers", "1", "--json", *more]


class Case:
    """A folder of a user's, and a command in it.

    Parameters
    ----------
    seed : int
    folder : Path
        Empty.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        rng = np.random.default_rng([seed, 25])
        self.folder, self.rng = folder, rng
        self.command = str(rng.choice(COMMANDS))
        kinds = MAIN if self.command == "main" else dict(ROWS)
        if self.command == "sweep":
            del kinds["--plot"]
        self.option = str(rng.choice(list(kinds)))
        self.name = kinds[self.option]
        self.target, self.trouble = str(rng.choice(TARGETS)), str(rng.choice(TROUBLES))
        weights = [rng.normal(size=shape) for shape in ((8, 4), (8, 8), (2, 8))]
        lipyomo.to_onnx(lipyomo.Network.from_arrays(weights), folder / "net.onnx")
        np.savez(folder / "data.npz", inputs=rng.uniform(-1, 1, (4, 4)))
        (folder / "notes.txt").write_text("hours of work\n")
        (folder / "real").mkdir()
        self.words = words_of(self.command)
        path = self._prepare()
        self.path = folder / path
        self.words += [self.option, path]
        if self.option == "--checkpoint" and self.target in ("own", "link to own"):
            self.words.append(str(rng.choice(["--overwrite", "--resume"])))

    def _prepare(self) -> str:
        """Make the target; returns its name."""
        folder, name, target = self.folder, self.name, self.target
        here = folder / name
        if target == "own":
            self._run_plainly(name)
        elif target == "empty":
            here.touch()
        elif target in ("network", "data", "text"):
            return {"network": "net.onnx", "data": "data.npz", "text": "notes.txt"}[target]
        elif target.startswith("link to"):
            if target == "link to own":
                self._run_plainly(f"real/{name}")
            to = {"link to network": "net.onnx", "link to itself": name}
            here.symlink_to(to.get(target, f"real/{name}"))
        elif target == "hard link to network":
            os.link(folder / "net.onnx", here)
        elif target == "folder":
            here.mkdir()
        elif target == "full device":
            here.symlink_to("/dev/full")
        elif target == "null device":
            here.symlink_to("/dev/null")
        elif target == "read only":
            here.symlink_to("/proc/version")
        elif target == "pipe":
            os.mkfifo(here)
        elif target in ("no folder", "in a file", "long", "no ASCII"):
            before = {"no folder": "none/", "in a file": "notes.txt/", "long": "x" * 5000}
            return before.get(target, "é\udcff") + name
        return name

    def _run_plainly(self, path: str) -> None:
        code, _, err = forked([*self.words, self.option, path], self.folder)
        assert code in (0, 2), err

    def run(self) -> list[str]:
        """Run the command; returns what was lost."""
        before = {path: path.read_bytes() for path in self._regular()}
        mode = self._mode()
        # a semaphore, as Pyomo makes one, is a file of 32 bytes
        size = int(self.rng.integers(40, 6000)) if self.trouble == "full" else None
        sent = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM}.get(self.trouble)
        sent = signal.SIGINT if self.trouble == "interrupted" else sent
        after = None if sent is None else (int(sent), float(self.rng.uniform(0, 0.6)))
        pipe = str(self.path) if self.target == "pipe" else None
        code, out, err = forked(self.words, self.folder, size, after, pipe)
        faults = []
        real = Path(os.path.realpath(self.path)) if self.target != "link to itself" else self.path
        for path, content in before.items():
            now = path.read_bytes() if path.exists() else None
            if now != content and not (path == real and self._is_whole(path, content)):
                faults.append(f"{path.name} is not as it was")
        if self._mode() != mode and mode is not None:
            faults.append("the target is of another kind than it was")
        left = [path for path in self._regular() if path.suffix == ".part"]
        if left and self.trouble != "killed":
            faults.append(f"left behind: {left[0].name}")
        whole = real in self._regular() and self._is_whole(real, before.get(real, b""))
        if code == 0 and real.exists() and stat.S_ISREG(real.stat().st_mode) and not whole:
            faults.append("exit code 0 without a whole file")
        if "Traceback" in err or "unexpected" in err or code == 99:
            faults.append(f"not a sentence: {err[-300:]}")
        refused = "lipyomo: error: " in err
        if after is None and not refused and not _is_answer(out):
            faults.append(f"no answer: {err[-300:]}")
        if after is None and code not in ((1,) if refused else (0, 1, 2)):
            faults.append(f"exit code {code}")
        return faults

    def _regular(self) -> list[Path]:
        paths = [*self.folder.iterdir(), *(self.folder / "real").iterdir()]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def _mode(self) -> int | None:
        try:
            return stat.S_IFMT(self.path.lstat().st_mode)
        except OSError:
            return None

    def _is_whole(self, path: Path, before: bytes) -> bool:
        """Whether a file of the target's kind is complete, and holds all rows that it held."""
        content = path.read_bytes()
        if self.option == "--proof":
            try:
                return gzip.decompress(content).endswith(b"\n")
            except (OSError, EOFError):
                return False
        if self.option == "--checkpoint":
            from lipyomo.search.engine.checkpoint import CheckpointError, _read_signed

            try:
                return bool(_read_signed(path))
            except CheckpointError:
                return False
        if self.option == "--history":
            return content.startswith(b"seconds,lower,upper\n") and content.endswith(b"\n")
        if self.option == "--plot":
            return content.startswith(b"\x89PNG") and content.endswith(b"IEND\xaeB`\x82")
        ours = content.startswith(b'{"run": {')
        return ours and set(_indices(before)) <= set(_indices(content))


def _indices(content: bytes) -> list[int]:
    lines = content.splitlines(keepends=True)[1:]
    return [json.loads(line)["index"] for line in lines if line.endswith(b"\n")]


def _is_answer(out: str) -> bool:
    try:
        return bool(json.loads(out))
    except ValueError:
        return False


def forked(
    words: list[str],
    folder: Path,
    size: int | None = None,
    after: tuple[int, float] | None = None,
    pipe: str | None = None,
) -> tuple[int, str, str]:
    """Run a command in a copy of this process: exit code (99 for an exception), stdout, stderr.

    Parameters
    ----------
    words : list of str
    folder : Path
        The current folder.
    size : int, optional
        Most bytes of a file.
    after : (int, float), optional
        A signal, and after how many seconds it is sent.
    pipe : str, optional
        Read from it meanwhile.
    """
    ends = [os.pipe(), os.pipe()]
    child = os.fork()
    if not child:
        code = 99
        try:
            os.chdir(folder)
            for number, (_, end) in enumerate(ends, 1):
                os.dup2(end, number)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if size is not None:
                sys.dont_write_bytecode = True  # Python keeps what is cut off as bytecode
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            code = main(words)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if pipe is not None:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        threading.Thread(target=_drain, args=(reader, child), daemon=True).start()
    for _, end in ends:
        os.close(end)
    if after is not None:
        time.sleep(after[1])
        os.kill(child, after[0])
    found = []
    for start, _ in ends:
        with os.fdopen(start, "rb") as stream:
            found.append(stream.read().decode(errors="replace"))
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), found[0], found[1]


def _drain(reader: int, child: int) -> None:
    """Read a pipe while a process is there."""
    while Path("/proc", str(child)).exists():
        try:
            if not os.read(reader, 2**16):
                time.sleep(0.01)
        except BlockingIOError:
            time.sleep(0.01)
    os.close(reader)


def prepare() -> None:
    """Import here what the copies of this process would each import."""
    import matplotlib.backends.backend_agg
    import onnxruntime

    assert matplotlib.backends.backend_agg is not None
    assert onnxruntime is not None
    with tempfile.TemporaryDirectory() as folder:
        Case(0, Path(folder))


def case(seed: int) -> tuple[str, list[str]]:
    """One case: what was tried, and what was lost."""
    with tempfile.TemporaryDirectory() as folder:
        tried = Case(seed, Path(folder))
        label = f"{tried.command} {tried.option}: {tried.target}, {tried.trouble}"
        return label, tried.run()


def run(count: int) -> int:
    """Run so many cases; returns the number of those that lost something."""
    prepare()
    lost, troubles = 0, Counter[str]()
    for seed in range(count):
        label, faults = case(seed)
        troubles[label.rpartition(", ")[2]] += 1
        lost += bool(faults)
        for fault in faults:
            print(f"{seed}: {label}: {fault}", flush=True)
    print(f"{count} cases, {lost} lost something ({dict(troubles)})")
    return lost


if __name__ == "__main__":
    sys.exit(bool(run(int(sys.argv[1]) if len(sys.argv) > 1 else 500)))
