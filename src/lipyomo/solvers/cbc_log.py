"""Parser of CBC's log: status, bounds and progress, with allowance for the printed precision.

The program prints six significant digits of its dual bound (older versions three decimals): the
outer end of the interval that they stand for is a valid bound.  All numbers are those of a
minimisation.
"""

from __future__ import annotations

import math
import re
from enum import Enum

from lipyomo.solvers.status import SolveStatus

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BOUND = re.compile(rf"^(?:Lower bound|Bound):\s+({_NUMBER})\s*$", re.MULTILINE)
_NODES = re.compile(r"^Enumerated nodes:\s+(\d+)", re.MULTILINE)
_RESULT = re.compile(r"^Result - (.*)$", re.MULTILINE)
_OLD_PROGRESS = re.compile(
    rf"After (\d+) nodes, \d+ on tree, ({_NUMBER}) best solution, best possible ({_NUMBER}) "
)
_VERSION = re.compile(r"[Vv]ersion:?\s+(\d+(?:\.\d+)*)")
BANNER = re.compile(
    r"^\s*(?:welcome to the\s+|coin\W?)?cbc\s+(?:milp|devel|version|and)",
    re.IGNORECASE | re.MULTILINE,
)
OPTION_ERROR = re.compile(
    r"^.*(?:unrecogni[sz]ed|illegal|valid range|no match|short match|multiple match|unable).*$",
    re.IGNORECASE | re.MULTILINE,
)


class Infinite(float, Enum):
    """Thresholds from which CBC's numbers mean infinite, or not available."""

    COLUMN_BOUND = 1e17
    VALUE = 1e19
    LOGGED = 1e49


def said_ending(log: str, solution_header: str, is_mip: bool) -> SolveStatus:
    """Return the status that the program reports.

    Parameters
    ----------
    log : str
    solution_header : str
        First line of the solution file; empty if there is none.
    is_mip : bool
        Whether the model is discrete.  A program that reaches its time limit after the relaxation
        calls that "optimal" in the file; only the log tells the status.
    """
    results = _RESULT.findall(log)
    said = (results[-1] if results else "").lower()
    text = f"{said} {solution_header.split(' - ')[0]}".lower()
    if "ctrl-c" in text:
        return SolveStatus.INTERRUPTED
    if "stopped on time" in text or "stopped on time" in log.lower():
        return SolveStatus.TIME_LIMIT
    if "stopped on" in text:
        return SolveStatus.LIMIT
    if "unbounded" in text:
        return SolveStatus.UNBOUNDED
    if "or unbounded" in log:
        return SolveStatus.INFEASIBLE_OR_UNBOUNDED
    if "infeasible" in text or "infeasibility proved" in log:
        return SolveStatus.INFEASIBLE
    if "optimal" in (said if is_mip else text):
        return SolveStatus.OPTIMAL
    if is_mip and "optimal" in text:
        return SolveStatus.TIME_LIMIT
    return SolveStatus.ERROR


def has_incumbent(log: str, solution_header: str, is_mip: bool) -> bool:
    """Return whether the solution file has a feasible point, not that of the relaxation."""
    header = solution_header.lower()
    if is_mip and _RESULT.search(log) is None:
        return False
    if not header or "no integer solution" in header or "not completed" in header:
        return False
    return header.startswith(("optimal", "stopped"))


def printed_bound(log: str) -> float | None:
    """Return the dual bound of a stopped search, rounded outward; None if none was printed."""
    last = _BOUND.findall(log)[-1:]
    if not last or abs(float(last[0])) >= Infinite.LOGGED:
        return None
    return float(last[0]) - unit_of_last_digit(last[0])


def unit_of_last_digit(text: str) -> float:
    """Return the largest rounding error of a number printed with six digits.

    Examples
    --------
    >>> unit_of_last_digit("-40732.5")
    0.1
    >>> unit_of_last_digit("12")  # trailing zeros are not printed
    0.0001
    >>> unit_of_last_digit("-3.333")  # three decimals: an older version
    0.001
    """
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    value = abs(float(text))
    fixed = 1e-3 if decimals == 3 and not exponent else 0.0
    if value == 0.0:
        return max(fixed, 1e-12)
    leading = math.floor(math.log10(value))
    return max(fixed, float(f"1e{leading - 5}"))


def progress_row(line: str) -> tuple[float | None, float, int] | None:
    """Parse a line of the search table, of new or old versions: incumbent, bound, nodes.

    The bound is rounded outward.
    """
    old = _OLD_PROGRESS.search(line)
    cells = _cells(line) if old is None else old.groups()
    if cells is None or abs(float(cells[2])) >= Infinite.LOGGED:
        return None
    nodes, best, bound = cells
    incumbent = None if abs(float(best)) >= Infinite.LOGGED else float(best)
    return incumbent, float(bound) - unit_of_last_digit(bound), int(nodes)


def _cells(line: str) -> tuple[str, ...] | None:
    """Parse three cells of ``[*] nodes on-tree depth best [method] bound gap% seconds``."""
    words = line.replace("★", " ").replace("*", " ").split()
    if len(words) < 6 or not words[-2].endswith("%"):
        return None
    if not all(word.isdigit() for word in words[:3]) or not re.fullmatch(_NUMBER, words[-3]):
        return None
    numeric = len(words) >= 7 and re.fullmatch(_NUMBER, words[3]) is not None
    return words[0], words[3] if numeric else "1e50", words[-3]


def nodes(log: str) -> int:
    """Return the number of nodes."""
    return int([0, *_NODES.findall(log)][-1])


def version(banner: str) -> tuple[int, ...]:
    """Return the version in a banner; (0,) for development versions, which have none."""
    match = _VERSION.search(banner)
    return (0,) if match is None else tuple(int(part) for part in match.group(1).split("."))
