"""The one function of the library: a problem in, a checked interval out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lipyomo.methods.registry import get_method, run_method
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result, Status, close_enough
from lipyomo.settings import Settings


def solve(
    problem: LipschitzProblem,
    method: str = "auto",
    settings: Settings | None = None,
    **changes: Any,
) -> Result:
    """Bound, and where possible determine, a local Lipschitz constant.

    Parameters
    ----------
    problem : LipschitzProblem
    method : str, optional
        A name of the method table (``lipyomo.methods.methods()``); ``auto`` picks an exact one.
    settings : Settings, optional
    **changes
        Fields of `Settings` to set, such as ``time_limit=60`` or ``solver="gurobi"``.

    Returns
    -------
    Result

    Raises
    ------
    LipyomoError
        If the method cannot treat the problem or a setting is wrong.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[2.0], [-1.0]], [[1.0, 1.0]]])
    >>> problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 1, 1))
    >>> lipyomo.solve(problem).lower
    2.0
    """
    chosen = replace(settings or Settings(), **changes)
    name = choose_method(problem) if method == "auto" else method
    result = run_method(name, problem, chosen)
    if chosen.rational:
        from lipyomo.proofs.confirm import confirm

        confirm(problem, result)
        if result.is_exact and not close_enough(result.lower, result.upper):
            result.status = Status.GAP
    result.warnings[:0] = [note for note in problem.notes if note not in result.warnings]
    return result


def choose_method(problem: LipschitzProblem) -> str:
    """Name of the exact method that suits `problem`.

    Branch and bound takes every norm and domain, and was the faster one on all reference networks
    and models (``python -m experiments exact``), so it is always chosen; a MIP has to be asked for.
    """
    return "bnb" if get_method("bnb").refusal(problem) is None else "mip"
