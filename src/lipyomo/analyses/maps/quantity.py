"""The quantity of a map: Lipschitz constants of cells, or the largest sizes of values there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.stages import Bounding, BoundingConstants, Searching
from lipyomo.analyses.maps.values import (
    BoundingValues,
    SearchingValues,
    refusal_of_values,
    scale_of_values,
)
from lipyomo.base.errors import MethodError
from lipyomo.methods.registry import get_method
from lipyomo.problems.problem import LipschitzProblem


@dataclass(frozen=True)
class Quantity:
    """The quantity of a map.

    Attributes
    ----------
    name : str
    bounding : callable
        Makes the `Bounding` that bounds cells together.
    searching : callable
        Makes the function that searches a cell.
    refusal : callable
        Returns why no map of a problem can be made, or None.
    scale : callable
        From a problem and all cells, returns the size to which gaps are relative if ends are less.
    """

    name: str
    bounding: Callable[..., Bounding]
    searching: Callable[..., Searching]
    refusal: Callable[[LipschitzProblem], str | None]
    scale: Callable[[LipschitzProblem, Cells], float]


def _refusal(problem: LipschitzProblem) -> str | None:
    return get_method("bnb").refusal(problem)


CONSTANTS = Quantity("constants", BoundingConstants, Searching, _refusal, lambda *_: 0.0)
VALUES = Quantity("values", BoundingValues, SearchingValues, refusal_of_values, scale_of_values)


def quantity(name: Any) -> Quantity:
    """Return the quantity of this name.

    Raises
    ------
    MethodError
        If there is none.
    """
    for one in (CONSTANTS, VALUES):
        if name == one.name:
            return one
    raise MethodError(f"there is no map of {name!r}.  Remedy: use 'constants' or 'values'")
