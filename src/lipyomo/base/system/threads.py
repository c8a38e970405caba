"""The usable cores, and the number of BLAS threads of this process.

Nearly all matrices here are small, so that threads of linear algebra only wait for each other: the
derivatives of a network of 130 units took ten times the CPU time with two.  Therefore all functions
that start a computation are decorated with `with_one_blas_thread`: public functions, methods, jobs
of workers, and the command line (`tests/house/test_house_threads.py` lists the exceptions and their
reasons).  The user's own setting is restored at the end.
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
    """Return the number of cores that this process may use, as far as the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _BlasThreads:
    """The number of BLAS threads, which is a setting of the whole process.

    Blocks may overlap in several threads: the one entered last decides, and the original setting is
    restored once all have ended.

    Searching for BLAS libraries takes milliseconds, changing the setting of known ones a
    microsecond.  So the search is repeated only if modules have been imported since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, int] = {}
        self._before: dict[str, int] = {}
        self._libraries: dict[str, Any] = {}
        self._modules = 0

    @contextlib.contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """Set the number of threads for a block."""
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
        """Search for BLAS libraries if modules have been imported since the last search."""
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
    """Set the number of BLAS threads of this process for a block."""
    return _BLAS.limited(count)


def with_one_blas_thread(function: Callable[Taken, Value]) -> Callable[Taken, Value]:
    """Decorate a function to run with one BLAS thread."""

    @functools.wraps(function)
    def alone(*args: Taken.args, **kwargs: Taken.kwargs) -> Value:
        with blas_threads(1):
            return function(*args, **kwargs)

    return alone
