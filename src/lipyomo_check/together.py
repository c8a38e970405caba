"""The same walk on several processes: small subtrees go to workers, the rest is done here.

The file is read once, line by line.  Wherever the subtree of the case that is next ends within a
few lines, those lines and the case are a job; what is larger is settled here, and so split.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import lines
from lipyomo_check.statement import read_statement
from lipyomo_check.tree import Case, Tree

AHEAD = 32
"""Most lines of a job."""

WAITING = 4
"""Jobs a worker that are handed over before any is finished."""

_tree: Tree | None = None
"""That of a worker process."""


def check_together(
    tree: Tree, path: Path, nodes: Iterator[Any], workers: int, told: Callable[[int], None] | None
) -> None:
    """Check all nodes of the proof at `path` with so many processes.

    Raises
    ------
    ProofError
        As `Tree.check` does, perhaps for another of several reasons.
    """
    waiting, ahead = [tree.root()], deque[Any]()
    running: set[Future[int]] = set()
    with ProcessPoolExecutor(workers, initializer=_begin, initargs=(path,)) as pool:
        try:
            while waiting or running:
                size = _subtree(ahead, nodes) if waiting else 0
                if size:
                    job = [ahead.popleft() for _ in range(size)]
                    running.add(pool.submit(_check, waiting.pop(), job))
                elif waiting:
                    waiting += tree.settle(waiting.pop(), ahead.popleft() if ahead else None)
                if not waiting or len(running) >= WAITING * workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    tree.nodes += sum(future.result() for future in done)
                if told is not None:
                    told(tree.nodes)
        except BrokenProcessPool:
            raise ProofError("a process that checked cases has died") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _subtree(ahead: deque[Any], nodes: Iterator[Any]) -> int:
    """Number of lines of the first subtree ahead; 0 if it does not end within `AHEAD`."""
    cases = 1
    for size in range(AHEAD):
        if size == len(ahead):
            line = next(nodes, None)
            if line is None:
                return 0
            ahead.append(line)
        steps = ahead[size]
        last = steps[-1] if isinstance(steps, list) and steps else None
        splits = isinstance(last, list) and bool(last) and last[0] in ("split", "cut")
        cases += 1 if splits else -1
        if not cases:
            return size + 1
    return 0


def _begin(path: Path) -> None:
    """Read the statement in a worker."""
    global _tree
    _tree = Tree(read_statement(next(lines(path))))


def _check(case: Case, nodes: list[Any]) -> int:
    """Check a subtree in a worker; its number of nodes."""
    assert _tree is not None
    before = _tree.nodes
    _tree.check(iter(nodes), case=case)
    return _tree.nodes - before
