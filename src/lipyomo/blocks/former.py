"""Arguments as version 0.3 took them: without names in an order of its own, and `input_norm`.

All of this goes with version 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from lipyomo.base.arguments import brief, deprecated
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.local_start import inputs_of

_ORDERS = {
    "DualBallBlock": "size norm half",
    "NormBlock": "inputs norm sense one_sided",
    "ReluNetworkBlock": "network inputs domain bounds scaling values formulation groups "
    "input_bounds",
    "SmoothNetworkBlock": "network inputs domain bounds scaling segments formulation groups "
    "input_bounds",
    "GradientBlock": "network functional limits inputs domain bounds scaling formulation "
    "input_bounds directions",
    "TangentBlock": "network direction norm limits inputs domain bounds scaling formulation "
    "input_bounds wrt directions",
    "LipschitzBlock": "network inputs domain norm output_norm encoding bounds limits input_bounds "
    "scaling formulation wrt directions",
    "UpperLipschitzBlock": "network inputs radius domain norm output_norm scaling input_bounds "
    "distance_to_kink wrt",
}


def named(
    kind: str, order: list[str], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name; those that need their names by now are warned of.

    Parameters
    ----------
    kind : str
        Name of the component.
    order : list of str
        Of the arguments that need no names.
    arguments : tuple
    options : mapping

    Raises
    ------
    ProblemError
        If there are more than version 0.3 took, or one was given twice.
    """
    former = _ORDERS[kind].split()
    if "input_norm" in options and "norm" in former:
        deprecated("input_norm=", "norm=")
        options = {("norm" if name == "input_norm" else name): v for name, v in options.items()}
    if len(arguments) > len(order) or _is_former(former[1], arguments, options):
        if len(arguments) > len(former):
            raise ProblemError(
                f"{len(arguments)} arguments were given without names.  Remedy: "
                f"({', '.join(order)}), and names for all others"
            )
        first = next(n for n, (a, b) in enumerate(zip_longest(former, order)) if a != b)
        names = [f"{name}=" for name in former[first : len(arguments)]]
        deprecated(f"an argument in place {first + 1}", f"its name, {', '.join(names)}")
        order = former
    twice = [name for name in order[: len(arguments)] if name in options]
    if twice:
        raise ProblemError(f"{twice[0]}= was given twice")
    return dict(zip(order, arguments, strict=False)) | dict(options)


def _is_former(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """Whether the second of two arguments is what version 0.3 took there, and no inputs.

    Raises
    ------
    ProblemError
        If it may be either.
    """
    if len(arguments) != 2 or name not in ("functional", "direction"):
        return False
    network, second = arguments
    if getattr(network, "is_built", False):
        given = second.values() if hasattr(second, "values") else [second]
        return list(map(id, inputs_of(network))) != list(map(id, given))
    items = second if isinstance(second, list | tuple | np.ndarray) else [second]
    if "inputs" not in options and all(isinstance(v, int | float | np.number) for v in items):
        raise ProblemError(
            f"{brief(second)} may be inputs or a {name}.  Remedy: inputs=... or {name}=..."
        )
    return "inputs" in options
