"""Local Lipschitz constants of neural networks: exact where possible, checked always.

The names below are imported when they are first used, so that ``import lipyomo`` stays cheap.
"""

# Nothing is imported here but what Python itself has loaded: with ``python -m lipyomo`` modules of
# the current folder come first until `lipyomo.__main__` has begun.
from lipyomo.base.modules import imported_when_used, know_former_paths
from lipyomo.version import __version__

TYPE_CHECKING = False  # as type checkers know it; a command is not safe from Ctrl-C meanwhile
if TYPE_CHECKING:
    from lipyomo.analyses.api import solve
    from lipyomo.analyses.certification import (
        MonotoneReport,
        RobustnessReport,
        certify_robustness,
        check_monotone,
    )
    from lipyomo.analyses.maps import CellMap, map_cells, refine_cells
    from lipyomo.analyses.questions.contraction import contraction
    from lipyomo.analyses.questions.curvature import (
        Curvature,
        curvature,
        smoothness,
        smoothness_problem,
    )
    from lipyomo.analyses.questions.derivatives import (
        JacobianRanges,
        derivative_range,
        jacobian_ranges,
    )
    from lipyomo.analyses.questions.lie import lie_derivative
    from lipyomo.analyses.questions.properties import PropertyAnswer, Verdict, check_property
    from lipyomo.analyses.questions.quantised import quantised_range
    from lipyomo.analyses.questions.several import LargestValue, largest_value, solve_largest
    from lipyomo.analyses.questions.values import value_range
    from lipyomo.analyses.quick import lipschitz
    from lipyomo.analyses.sweeps import SweepRow, sweep
    from lipyomo.base.errors import LipyomoError
    from lipyomo.blocks import add_network
    from lipyomo.formats.importers import from_sklearn, from_torch
    from lipyomo.formats.onnx import load, load_quantised, to_onnx
    from lipyomo.networks import combined as networks
    from lipyomo.networks.activations import activation
    from lipyomo.networks.network import Curve, Layer, Network
    from lipyomo.networks.quantised import QuantisedNetwork
    from lipyomo.problems.domains import AllSpace, Box, Domain, NormBall, Polytope, ball
    from lipyomo.problems.norms import LinearOutput, OutputNorm, functional, parse_output_norm
    from lipyomo.problems.problem import LipschitzProblem
    from lipyomo.problems.ranges import Range
    from lipyomo.problems.result import Guarantee, Progress, Result, Status, Witness
    from lipyomo.problems.settings import Settings

_NAMES = {
    ".analyses.api": ("solve",),
    ".formats.onnx": ("load", "load_quantised", "to_onnx"),
    ".formats.importers": ("from_torch", "from_sklearn"),
    ".networks": (),
    ".networks.network": ("Curve", "Layer", "Network"),
    ".networks.quantised": ("QuantisedNetwork",),
    ".networks.activations": ("activation",),
    ".problems.domains": ("Box", "Domain", "NormBall", "AllSpace", "ball", "Polytope"),
    ".problems.norms": ("LinearOutput", "OutputNorm", "functional", "parse_output_norm"),
    ".analyses.maps": ("CellMap", "map_cells", "refine_cells"),
    ".problems.problem": ("LipschitzProblem",),
    ".problems.ranges": ("Range",),
    ".analyses.questions.values": ("value_range",),
    ".analyses.questions.lie": ("lie_derivative",),
    ".analyses.questions.contraction": ("contraction",),
    ".analyses.questions.curvature": ("Curvature", "curvature", "smoothness", "smoothness_problem"),
    ".analyses.questions.derivatives": ("JacobianRanges", "derivative_range", "jacobian_ranges"),
    ".analyses.questions.properties": ("PropertyAnswer", "Verdict", "check_property"),
    ".analyses.questions.quantised": ("quantised_range",),
    ".analyses.questions.several": ("LargestValue", "largest_value", "solve_largest"),
    ".analyses.quick": ("lipschitz",),
    ".problems.result": ("Result", "Status", "Guarantee", "Progress", "Witness"),
    ".problems.settings": ("Settings",),
    ".base.errors": ("LipyomoError",),
    ".blocks": ("add_network",),
    ".analyses.sweeps": ("SweepRow", "sweep"),
    ".analyses.certification": (
        "certify_robustness",
        "check_monotone",
        "RobustnessReport",
        "MonotoneReport",
    ),
}
__all__ = [
    "AllSpace",
    "Box",
    "CellMap",
    "Curvature",
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
    "PropertyAnswer",
    "QuantisedNetwork",
    "Range",
    "Result",
    "RobustnessReport",
    "Settings",
    "Status",
    "SweepRow",
    "Verdict",
    "Witness",
    "__version__",
    "activation",
    "add_network",
    "ball",
    "certify_robustness",
    "check_monotone",
    "check_property",
    "contraction",
    "curvature",
    "derivative_range",
    "from_sklearn",
    "from_torch",
    "functional",
    "jacobian_ranges",
    "largest_value",
    "lie_derivative",
    "lipschitz",
    "load",
    "load_quantised",
    "map_cells",
    "networks",
    "parse_output_norm",
    "quantised_range",
    "refine_cells",
    "smoothness",
    "smoothness_problem",
    "solve",
    "solve_largest",
    "sweep",
    "to_onnx",
    "value_range",
]

know_former_paths()


__getattr__, _ = imported_when_used(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
