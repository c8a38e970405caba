"""What a caller can ask of any method; methods read what concerns them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from lipyomo.errors import MethodError
from lipyomo.result import ProgressCallback

Formulation = Literal["auto", "adjoint", "tangent"]
BoundRung = Literal["auto", "interval", "linear", "lp"]


@dataclass(frozen=True)
class Settings:
    """Settings of one run.

    Attributes
    ----------
    time_limit : float
        Seconds of wall-clock time; the best interval found is returned then.
    gap : float
        Relative gap at which to stop (LipMIP(x %) of the paper); 0 asks for the exact constant.
    threads : int, optional
        Threads or processes to use; None leaves it to the method.
    seed : int
        Of all sampling; equal seeds and threads give equal answers.
    solver : str
        A name of ``solvers.toml`` or ``auto``.
    solvers_file : Path, optional
        Another ``solvers.toml``.
    formulation : {'auto', 'adjoint', 'tangent'}
        MIP encoding of the gradient.
    bounds : {'auto', 'interval', 'linear', 'lp'}
        Highest rung of the bound ladder.
    rational : bool
        Recompute the witness in exact rational arithmetic as well.
    progress : callable, optional
        Called with `Progress` now and then.
    should_stop : callable, optional
        Polled; True ends the run as an interruption does.
    started : float, optional
        Value of ``time.monotonic()`` from which `time_limit` and all seconds count; by default the
        moment at which the run begins.
    options : dict
        Options of single methods, by name (``{'samples': 5000}``); unknown ones are errors.
    """

    time_limit: float = math.inf
    gap: float = 0.0
    threads: int | None = None
    seed: int = 0
    solver: str = "auto"
    solvers_file: Path | None = None
    formulation: Formulation = "auto"
    bounds: BoundRung = "auto"
    rational: bool = False
    progress: ProgressCallback | None = None
    should_stop: Callable[[], bool] | None = None
    started: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.time_limit > 0:
            raise MethodError(f"the time limit must be positive, not {self.time_limit}")
        if not 0 <= self.gap < 1:
            raise MethodError(f"the relative gap must be in [0, 1), not {self.gap}")
        if self.threads is not None and self.threads < 1:
            raise MethodError(f"at least one thread is needed, not {self.threads}")
        if self.formulation not in get_args(Formulation):
            raise MethodError(
                f"unknown formulation '{self.formulation}'.  Remedy: auto, adjoint or tangent"
            )
        if self.bounds not in get_args(BoundRung):
            raise MethodError(
                f"unknown bounds '{self.bounds}'.  Remedy: auto, interval, linear or lp"
            )
