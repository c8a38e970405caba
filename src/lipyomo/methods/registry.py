"""The table of methods: each file of this package registers methods with their guarantees.

To add a method, put a file into this package with a function from a `Run` to its `Result`,
decorated with `method`; the file is found automatically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from lipyomo.base.errors import MethodError
from lipyomo.base.modules import import_modules, module_names
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.methods.free import with_free
from lipyomo.networks.network import why_not_smooth
from lipyomo.problems.magnitudes import overflow_is_meant
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result, Status
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings

LINEAR = ("scalar", "l1", "linf", "cross", "cross(i)", "linear")
"""Output norms whose dual balls are polytopes."""

EVERY = ("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear")

TAKES_ALL: dict[str, Any] = {
    "unbounded": True,
    "smooth": True,
    "directions": ("two-slope", "smooth"),
}
"""Fields of methods that accept all domains, units and directions."""

Recipe: TypeAlias = Callable[[Run], Result]

STARVED = (
    "the memory did not suffice: the interval is what was known by then.  Remedy: a higher memory "
    "limit if one is set, a smaller domain, or fewer workers"
)

_ORDER = (Guarantee.EXACT, Guarantee.UPPER, Guarantee.LOWER, Guarantee.HEURISTIC)


@dataclass(frozen=True)
class Method:
    """A method and what it guarantees.

    Attributes
    ----------
    name : str
        As given to ``--method``.
    title : str
        As shown in tables.
    guarantee : Guarantee
    reference : str
        Where the method comes from.
    input_norms : tuple of str
    output_norms : tuple of str
        Among scalar, l1, l2, linf, cross, cross(i), linear; ``scalar`` means one functional.
    unbounded : bool
        Whether it accepts unbounded domains.
    relu_only : bool
        Whether it accepts no units other than ReLUs.
    smooth : bool
        Whether it accepts smooth units, such as tanh.
    directions : tuple of str
        Kinds of units, two-slope and smooth, with which it accepts directions.
    options : dict
        Names of its own options with their default values.
    refuses : callable, optional
        Maps a problem to the reason why the method cannot treat it, or None; called if the fields
        above do not exclude the problem.
    run : callable
        Maps a `Run` to its `Result`.
    """

    name: str
    title: str
    guarantee: Guarantee
    reference: str
    run: Recipe
    input_norms: tuple[str, ...] = ("linf", "l1", "l2")
    output_norms: tuple[str, ...] = EVERY
    unbounded: bool = False
    relu_only: bool = False
    smooth: bool = False
    directions: tuple[str, ...] = ()
    options: dict[str, object] = field(default_factory=dict)
    refuses: Callable[[LipschitzProblem], str | None] | None = None

    def refusal(self, problem: LipschitzProblem) -> str | None:
        """Why the method cannot treat `problem`, or None if it can."""
        if unit_kind(problem) == "smooth" and not self.smooth:
            return why_not_smooth(problem.network, "it", use_smooth_methods())
        if problem.directions is not None and unit_kind(problem) not in self.directions:
            return _refuses_directions(problem)
        if problem.norm not in self.input_norms:
            return f"it has no input norm {problem.norm}, only {', '.join(self.input_norms)}"
        kind = "scalar" if problem.is_scalar else problem.output_norm.kind
        if kind not in self.output_norms:
            return f"it has no output norm {kind}, only {', '.join(self.output_norms)}"
        if not self.unbounded and not problem.domain.is_bounded:
            return "it needs a bounded domain.  Remedy: give one, or use method bnb"
        if self.relu_only:
            for layer in problem.network.hidden:
                kinked = layer.kinked
                if (layer.left[kinked] != 0).any() or (layer.right[kinked] != 1).any():
                    return "it takes ReLU units only.  Remedy: use method bnb"
        return None if self.refuses is None else self.refuses(problem)


def use_smooth_methods() -> str:
    """Return the remedy of a message that smooth units are not accepted."""
    able = ", ".join(name for name, method in methods().items() if method.smooth)
    return f"use one of the methods for smooth networks: {able}"


def _refuses_directions(problem: LipschitzProblem) -> str:
    """Return the message that directions are not accepted, and which methods accept them."""
    kind = unit_kind(problem)
    able = ", ".join(name for name, method in methods().items() if kind in method.directions)
    return (
        f"it takes no directions (wrt, weights, directions) with {kind} units.  Remedy: leave "
        f"them out{f', or use one of the methods for them: {able}' if able else ''}"
    )


def unit_kind(problem: LipschitzProblem) -> str:
    """Return the kind of a network's units, as in `Method.directions`."""
    return "smooth" if problem.network.smooth else "two-slope"


_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add `method` to the table, with BLAS limited to one thread while it runs."""
    found = replace(method, run=with_one_blas_thread(method.run))
    _METHODS[method.name] = found
    return found


def method(
    name: str, title: str, guarantee: Guarantee, reference: str, **keywords: Any
) -> Callable[[Recipe], Recipe]:
    """Add the decorated function to the table; the arguments are fields of its `Method`."""

    def enter(run: Recipe) -> Recipe:
        return register(Method(name, title, guarantee, reference, run, **keywords)).run

    return enter


def methods() -> dict[str, Method]:
    """Return all methods by name: exact ones, upper bounds, lower bounds, then heuristics."""
    import_modules("lipyomo.methods")
    ranked = sorted(_METHODS.values(), key=lambda m: (_ORDER.index(m.guarantee), m.name))
    return {method.name: method for method in ranked}


def get_method(name: str) -> Method:
    """Return the method called `name`.

    Raises
    ------
    MethodError
        If there is none.
    """
    # most methods are in a file of the same name: no other files need to be imported
    if name not in _METHODS and name in module_names("lipyomo.methods"):
        import_module(f"lipyomo.methods.{name}")
    if name in _METHODS:
        return _METHODS[name]
    table = methods()
    if name not in table:
        raise MethodError(f"unknown method '{name}'.  Remedy: use one of {', '.join(table)}")
    return table[name]


def bounding_methods() -> list[str]:
    """Return the names of the methods whose upper bounds are guaranteed."""
    upper = (Guarantee.EXACT, Guarantee.UPPER)
    return [name for name, method in methods().items() if method.guarantee in upper]


@with_one_blas_thread
def run_method(name: str, problem: LipschitzProblem, settings: Settings) -> Result:
    """Run one method on a problem it can treat.

    Raises
    ------
    MethodError
        If it cannot treat it, or does not have an option.
    """
    method = get_method(name)
    reason = method.refusal(problem)
    if reason is not None:
        raise MethodError(f"method {name} cannot treat this problem: {reason}")
    unknown = set(settings.options) - set(method.options)
    if unknown:
        own = ", ".join(method.options) or "none"
        raise MethodError(
            f"method {name} has no option {', '.join(sorted(unknown))} (it has {own})"
        )
    with overflow_is_meant(problem.network, problem.domain):
        return finished(method, Run(problem, settings, name, method.guarantee))


def was_interrupted(result: Result) -> bool:
    """Return whether a method was stopped by the user, not by lack of memory (same status)."""
    was_stopped = result.stopped or result.status is Status.INTERRUPTED
    return was_stopped and STARVED not in result.warnings


def finished(method: Method, run: Run) -> Result:
    """Run a method; after Ctrl-C, return what is known by then.

    If the first Ctrl-C is handled by the method itself, this concerns a second one.  The same
    happens if memory runs out, unless nothing is known yet.

    Parameters
    ----------
    method : Method
    run : Run

    Returns
    -------
    Result
    """

    def begin(run: Run) -> Result:
        if run.settings.attain and method.guarantee is Guarantee.UPPER:
            from lipyomo.search.kinds import kind_of

            search = kind_of(run.problem.network).quick_incumbent
            run.raise_lower(search(run.problem, run.settings.seed, run.clock))
        return method.run(run)

    try:
        if run.problem.free is None:
            return begin(run)
        return with_free(run, begin, partial(run_method, "bnb"))
    except KeyboardInterrupt:
        run.clock.stop()
        return run.result(done=False)
    except MemoryError:
        if run.witness is None and math.isinf(run.upper):
            raise
        run.clock.stop()
        run.warn(STARVED)
        return run.result(done=False)
