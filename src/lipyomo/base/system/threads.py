"""The cores of this machine, and how many threads the linear algebra of this process has.

The matrices of nearly everything here are small, and threads of linear algebra only wait for each
other then: the derivatives of a network of 130 units took ten times the CPU time with two.  So
whatever computes is decorated with `with_one_blas_thread` where it is declared: public functions,
methods, what workers are handed, and the command line (`tests/house/test_house_threads.py` lists
what is not, and why).  The user's own setting comes back at the end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

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

    To look for libraries takes milliseconds, to tell those that are known a microsecond.  So they
    are looked for again only where modules have been loaded since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, int] = {}
        self._before: dict[str, int] = {}
        self._libraries: dict[str, Any] = {}
        self._modules = 0

    @contextlib.contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """A block with so many threads."""
        token = object()
        with self._lock:
            self._find_libraries()
            self._asked[token] = count
            self._set_threads(count)
        try:
            yield
        finally:
            with self._lock:
                del self._asked[token]
                if self._asked:
                    self._set_threads([*self._asked.values()][-1])
                else:
                    for place, before in self._before.items():
                        self._libraries[place].set_num_threads(before)
                    self._before.clear()

    def _find_libraries(self) -> None:
        """Look for libraries, unless all that are loaded are known."""
        if len(sys.modules) == self._modules or "numpy" not in sys.modules:
            return
        import_module("scipy.linalg")  # has a library of its own, and may be loaded in the block
        from threadpoolctl import ThreadpoolController

        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            self._libraries.setdefault(library.filepath, library)
        self._modules = len(sys.modules)

    def _set_threads(self, count: int) -> None:
        for place, library in self._libraries.items():
            if place not in self._before:
                self._before[place] = library.num_threads
            library.set_num_threads(count)


_BLAS = _BlasThreads()


def blas_threads(count: int) -> contextlib.AbstractContextManager[None]:
    """A block in which the linear algebra of this process has so many threads."""
    return _BLAS.limited(count)


def with_one_blas_thread(function: Callable[Taken, Value]) -> Callable[Taken, Value]:
    """A function during which the linear algebra has one thread."""

    @functools.wraps(function)
    def alone(*args: Taken.args, **kwargs: Taken.kwargs) -> Value:
        with blas_threads(1):
            return function(*args, **kwargs)

    return alone
