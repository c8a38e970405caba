"""Local Lipschitz constants of neural networks: exact where possible, checked always.

The names below are imported when they are first used, so that ``import lipyomo`` stays cheap.
"""

# Nothing is imported here but what Python itself has loaded: with ``python -m lipyomo`` modules of
# the current folder come first until `lipyomo.__main__` has begun.
from importlib import import_module

from lipyomo.version import __version__

TYPE_CHECKING = False  # as type checkers know it; a command is not safe from Ctrl-C meanwhile
if TYPE_CHECKING:
    from typing import Any

    from lipyomo import networks
    from lipyomo.activations import activation
    from lipyomo.api import solve
    from lipyomo.certification import (
        MonotoneReport,
        RobustnessReport,
        certify_robustness,
        check_monotone,
    )
    from lipyomo.domains import AllSpace, Box, Domain, NormBall, Polytope, ball
    from lipyomo.errors import LipyomoError
    from lipyomo.importers import from_sklearn, from_torch
    from lipyomo.maps import CellMap, map_cells, refine_cells
    from lipyomo.network import Curve, Layer, Network
    from lipyomo.norms import LinearOutput, OutputNorm, functional, parse_output_norm
    from lipyomo.onnx import load, to_onnx
    from lipyomo.problem import LipschitzProblem
    from lipyomo.questions.derivatives import JacobianRanges, derivative_range, jacobian_ranges
    from lipyomo.questions.largest import LargestValue, largest_value
    from lipyomo.questions.lie import lie_derivative
    from lipyomo.questions.several import solve_largest
    from lipyomo.questions.values import value_range
    from lipyomo.quick import lipschitz
    from lipyomo.ranges import Range
    from lipyomo.result import Guarantee, Progress, Result, Status, Witness
    from lipyomo.settings import Settings
    from lipyomo.sweeps import SweepRow, sweep

_NAMES = {
    "api": ("solve",),
    "onnx": ("load", "to_onnx"),
    "importers": ("from_torch", "from_sklearn"),
    "network": ("Curve", "Layer", "Network"),
    "activations": ("activation",),
    "domains": ("Box", "Domain", "NormBall", "AllSpace", "ball", "Polytope"),
    "norms": ("LinearOutput", "OutputNorm", "functional", "parse_output_norm"),
    "maps": ("CellMap", "map_cells", "refine_cells"),
    "problem": ("LipschitzProblem",),
    "ranges": ("Range",),
    "questions.values": ("value_range",),
    "questions.lie": ("lie_derivative",),
    "questions.derivatives": ("JacobianRanges", "derivative_range", "jacobian_ranges"),
    "questions.largest": ("LargestValue", "largest_value"),
    "questions.several": ("solve_largest",),
    "quick": ("lipschitz",),
    "result": ("Result", "Status", "Guarantee", "Progress", "Witness"),
    "settings": ("Settings",),
    "errors": ("LipyomoError",),
    "sweeps": ("SweepRow", "sweep"),
    "certification": ("certify_robustness", "check_monotone", "RobustnessReport", "MonotoneReport"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "AllSpace",
    "Box",
    "CellMap",
    "Curve",
    "Domain",
    "Guarantee",
    "JacobianRanges",
    "LargestValue",
    "Layer",
    "LinearOutput",
    "LipschitzProblem",
    "LipyomoError",
    "MonotoneReport",
    "Network",
    "NormBall",
    "OutputNorm",
    "Polytope",
    "Progress",
    "Range",
    "Result",
    "RobustnessReport",
    "Settings",
    "Status",
    "SweepRow",
    "Witness",
    "__version__",
    "activation",
    "ball",
    "certify_robustness",
    "check_monotone",
    "derivative_range",
    "from_sklearn",
    "from_torch",
    "functional",
    "jacobian_ranges",
    "largest_value",
    "lie_derivative",
    "lipschitz",
    "load",
    "map_cells",
    "networks",
    "parse_output_norm",
    "refine_cells",
    "solve",
    "solve_largest",
    "sweep",
    "to_onnx",
    "value_range",
]


def __getattr__(name: str) -> "Any":
    """Import a public name from its module, or a module that is one."""
    if name == "networks":
        return import_module("lipyomo.networks")
    if name in _HOMES:
        return getattr(import_module(f"lipyomo.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'lipyomo' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
