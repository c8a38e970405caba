"""Check a whole proof: the statement, the witness, the tree."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from lipyomo_check.errors import ProofError
from lipyomo_check.formats import Edition
from lipyomo_check.network import compare_network, compare_shell
from lipyomo_check.pairs.proof import walk_pairs
from lipyomo_check.reading import after_first_line, entry, lines, read
from lipyomo_check.smooth.proof import walk_tree
from lipyomo_check.smooth.slopes import check_slopes
from lipyomo_check.smooth.steps import Payload, total_of
from lipyomo_check.smooth.witness import check_smooth_witness
from lipyomo_check.statement import Statement, read_statement
from lipyomo_check.tree import Tree
from lipyomo_check.witness import check_witness

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; from lipyomo_check.check import _main; "
    "sys.exit(_main(int(sys.argv[1]), int(sys.argv[2])))"
)


class _Exit(IntEnum):
    """How a process that checks a share of the cases ends."""

    ACCEPTED = 0
    REJECTED = 3


@dataclass(frozen=True)
class Verdict:
    """What a proof proves.

    Attributes
    ----------
    statement : Statement
    upper_proved : bool
        Whether the tree proves the upper end; without a tree only the lower end is proved.
    basis : str
        What the upper end rests on where it is not proved.
    nodes : int
    network : str
        How the network of the proof was compared with that of the user.
    shell : str
        The same of the function whose values make a shell; empty without one.
    """

    statement: Statement
    upper_proved: bool
    basis: str
    nodes: int
    network: str
    shell: str = ""

    def words(self) -> list[str]:
        """Return what was proved, in words."""
        compared = [self.network, *([self.shell] if self.shell else [])]
        several = len(self.statement.ends or []) > 1
        lower, upper = ("inner ends", "outer ends") if several else ("lower end", "upper end")
        attained = f"proved       the {lower} {'are' if several else 'is'} attained"
        said = [*self.statement.words(), *compared, attained]
        if self.upper_proved:
            cases = f"{self.nodes} case{'s' * (self.nodes != 1)}"
            return [*said, f"proved       the {upper}, by {cases}"]
        return [*said, f"not proved   the {upper} {'rest' if several else 'rests'} on {self.basis}"]


def check_proof(
    path: str | Path,
    network: str | Path | None = None,
    digest: str | None = None,
    progress: Callable[[int], None] | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    strict: bool = False,
    shell: str | None = None,
) -> Verdict:
    """Check a proof file.

    Parameters
    ----------
    path : path
    network : path, optional
        The ONNX file that it should be about.
    digest : str, optional
        Digest of the chain that another program made of that file, where this one cannot; without a
        file, of the network that it should be about.
    progress : callable, optional
        Called with the number of nodes that are checked.
    workers : int, optional
        Processes, among which the certificates are shared.
    executor : Executor, optional
        Runs the shares of the others; by default processes of its own.
    strict : bool, optional
        Compute all bounds of smooth networks' boxes once more in Arb, a hundred times slower.  The
        proofs of other networks are checked in whole numbers in any case.
    shell : str, optional
        Digest of the network whose values make the shell on which points count.

    Returns
    -------
    Verdict

    Raises
    ------
    ProofError
        If anything does not hold.
    ValueError
        If there is to be less than one process.
    """
    if not workers >= 1:
        raise ValueError(f"workers={workers}: at least one process is needed.  Remedy: workers=1")
    network = None if network is None else Path(network)
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):  # matrices are small
        return _checked(Path(path), network, digest, progress, workers, executor, strict, shell)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return libraries of linear algebra, looked for again only where so many modules are new."""
    return ThreadpoolController()


def _checked(
    path: Path,
    network: Path | None,
    digest: str | None,
    progress: Callable[[int], None] | None,
    workers: int,
    executor: Executor | None,
    strict: bool,
    shell: str | None,
) -> Verdict:
    data = read(path)  # once: the file may be another one a moment later
    found = lines(data)
    first = _first(found)
    statement = read_statement(first)
    about, level = compare_network(statement, network, digest), compare_shell(statement, shell)
    basis = entry(first, "basis")
    if basis is not None and not isinstance(basis, str):
        raise ProofError("what the upper end rests on is not said in words")
    check = check_smooth_witness if statement.smooth else check_witness
    check(statement, entry(first, "witness"))
    if basis is not None:
        nodes = 0
    elif not statement.smooth:
        nodes = _check_cases(Tree(statement, workers), found, data, progress, executor)
    elif statement.by_slopes:
        nodes = check_slopes(statement, found, strict)
    else:
        walk = walk_pairs if statement.edition is Edition.PAIRS else walk_tree
        following = Payload(after_first_line(data))
        nodes = total_of(walk(statement, following, strict), progress)
        following.end()
        found = iter(())  # that was the whole file
    for _ in found:
        raise ProofError("the file goes on after its last case")
    return Verdict(statement, basis is None, basis or "", nodes, about, level)


def stated(path: str | Path) -> Statement:
    """Return the statement of a proof file, without checking anything.

    Raises
    ------
    ProofError
        If it is none.
    """
    return read_statement(_first(lines(read(Path(path)))))


def _first(found: Iterator[Any]) -> Any:
    """Return the first line."""
    first = next(found, None)
    if first is None:
        raise ProofError("the file is empty")
    return first


def _check_cases(
    tree: Tree,
    found: Iterator[Any],
    data: bytes,
    progress: Callable[[int], None] | None,
    executor: Executor | None,
) -> int:
    """Check all cases, by as many workers as the tree is for; returns how many there are."""
    if tree.workers == 1:
        tree.check(found, progress)
    elif executor is not None:
        _check_together(tree, found, data, progress, executor, _check_share)
    else:
        with ThreadPoolExecutor(tree.workers - 1) as threads:
            _check_together(tree, found, data, progress, threads, _check_apart)
    return tree.nodes


def _check_together(
    tree: Tree,
    found: Iterator[Any],
    data: bytes,
    progress: Callable[[int], None] | None,
    pool: Executor,
    check: Callable[[bytes, int, int], None],
) -> None:
    """Check the cases while others do the same, each with a share of the certificates."""
    others = [pool.submit(check, data, k, tree.workers) for k in range(1, tree.workers)]
    tree.check(found, progress)
    try:
        for other in others:
            other.result()
    except BrokenProcessPool:
        raise ProofError("a process that checked cases has died") from None


def _check_share(data: bytes, share: int, workers: int) -> None:
    found = lines(data)
    Tree(read_statement(next(found)), workers, share).check(found)


def _check_apart(data: bytes, share: int, workers: int) -> None:
    """Check a share in a process that does not import from the current folder.

    Nobody has named what lies there; it counts only if it holds this package.
    """
    home = str(Path(__file__).resolve().parents[1])
    here = os.path.realpath(os.curdir)
    folders = [home, *(entry for entry in sys.path if entry and os.path.realpath(entry) != here)]
    words = [sys.executable, "-I", "-c", _START, str(share), str(workers), *folders]
    ran = subprocess.run(words, input=data, capture_output=True)
    if ran.returncode == _Exit.REJECTED:
        raise ProofError(ran.stdout.decode())
    if ran.returncode:
        raise BrokenProcessPool


def _main(share: int, workers: int) -> int:
    """Check a share of the proof on stdin; says on stdout why it is rejected."""
    try:
        _check_share(sys.stdin.buffer.read(), share, workers)
    except ProofError as error:
        sys.stdout.buffer.write(str(error).encode())
        return _Exit.REJECTED
    return _Exit.ACCEPTED
