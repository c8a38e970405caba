"""The cores of this machine, and how many threads the linear algebra of this process has."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

Value = TypeVar("Value")
Taken = ParamSpec("Taken")


def usable_cores() -> int:
    """Cores that this process may use, as far as the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _BlasThreads:
    """How many threads the linear algebra has, which only the whole process can be told.

    Blocks may overlap in several threads: the last one that was entered decides, and what there
    was before the first comes back once all are left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, int] = {}
        self._before: threadpool_limits | None = None

    @contextlib.contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """A block with so many threads."""
        token = object()
        with self._lock:
            self._asked[token] = count
            found = threadpool_limits(limits=count, user_api="blas")
            self._before = self._before or found
        try:
            yield
        finally:
            with self._lock:
                del self._asked[token]
                if self._asked:
                    threadpool_limits(limits=[*self._asked.values()][-1], user_api="blas")
                elif self._before is not None:
                    self._before.restore_original_limits()
                    self._before = None


_BLAS = _BlasThreads()


def blas_threads(count: int) -> contextlib.AbstractContextManager[None]:
    """A block in which the linear algebra of this process has so many threads."""
    return _BLAS.limited(count)


def with_one_blas_thread(function: Callable[Taken, Value]) -> Callable[Taken, Value]:
    """A function during which the linear algebra has one thread.

    Small matrices gain nothing from more, which spend their time waiting for each other: proofs
    took ten times as long with two.
    """

    @functools.wraps(function)
    def alone(*args: Taken.args, **kwargs: Taken.kwargs) -> Value:
        with blas_threads(1):
            return function(*args, **kwargs)

    return alone
