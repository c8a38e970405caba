"""Options that have the same meaning for every solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lipyomo.base.arguments import real_number, whole_number
from lipyomo.base.errors import SolverError

Native = str | int | float | bool
"""A value of a solver's own option."""


@dataclass(frozen=True)
class SolverOptions:
    """Options of a solve, independent of the solver.

    A solve stops as soon as ``|incumbent - bound| <= abs_gap`` or
    ``|incumbent - bound| <= rel_gap * |incumbent|``.  Options that are None are taken from
    ``solvers.toml`` (whose packaged version sets ``rel_gap = 1e-6``, ``abs_gap = 1e-9`` and
    ``integrality_tolerance = 1e-6``, or 1e-9 for HiGHS), otherwise the solver's default is used.

    Parameters
    ----------
    time_limit : float, optional
        Wall-clock seconds from the call on, including the compilation of the model.
    threads : int, optional
        Number of threads; at least 1.
    rel_gap, abs_gap : float, optional
        See above.
    integrality_tolerance : float, optional
        Largest distance of a discrete variable to an integer, in (0, 0.5).
    node_limit : int, optional
        Largest number of branch-and-bound nodes.
    log : bool, optional
        Print the solver's log while it runs.  The log is stored in the outcome in any case.
    native : mapping, optional
        The solver's own options by their own names, validated by the solver.

    Raises
    ------
    SolverError
        If a value is out of range; the message names the option.
    """

    time_limit: float | None = None
    threads: int | None = None
    rel_gap: float | None = None
    abs_gap: float | None = None
    integrality_tolerance: float | None = None
    node_limit: int | None = None
    log: bool | None = None
    native: Mapping[str, Native] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every value."""
        for name in KNOBS:
            check_knob(name, getattr(self, name))

    def with_defaults(self, defaults: Mapping[str, Any]) -> SolverOptions:
        """Return a copy in which options that are None have values of `defaults`.

        Parameters
        ----------
        defaults : mapping
            Values by option; native options, under ``options``, are overridden by those given here.
        """
        missing = {name for name in KNOBS if getattr(self, name) is None}
        changes = {name: value for name, value in defaults.items() if name in missing}
        return replace(self, **changes, native={**defaults.get("options", {}), **self.native})


KNOBS = tuple(entry.name for entry in fields(SolverOptions) if entry.name != "native")


def check_knob(name: str, value: object) -> None:
    """Raise `SolverError` unless `value` is valid for the option `name`."""
    if value is None:
        return
    if name == "log":
        if not isinstance(value, bool):
            raise SolverError(f"log must be true or false, not {value!r}")
    elif name in ("threads", "node_limit"):
        whole_number(value, name, SolverError, 1)
    else:
        number = real_number(value, name, SolverError)
        if name == "integrality_tolerance" and not 0.0 < number < 0.5:
            raise SolverError(f"integrality_tolerance must lie in (0, 0.5), not {value!r}")
        if number < 0.0:
            raise SolverError(f"{name} must not be negative, not {value!r}")
