"""Pyomo blocks for a network's values, gradient, norms of the gradient, and Lipschitz constant."""

from lipyomo.base.modules import imported_when_used
from lipyomo.base.system import (  # before any of Pyomo
    pyomo_without_statistics as pyomo_without_statistics,
)
from lipyomo.blocks.assumptions import FixedInputWarning
from lipyomo.blocks.base import rebuild
from lipyomo.blocks.gradient import GradientBlock
from lipyomo.blocks.handle import NetworkBlock, add_network
from lipyomo.blocks.ideal_cuts import add_ideal_cuts
from lipyomo.blocks.lipschitz import LipschitzBlock
from lipyomo.blocks.norm import DualBallBlock, NormBlock
from lipyomo.blocks.relu import ReluNetworkBlock, ToleranceWarning
from lipyomo.blocks.smooth import SmoothNetworkBlock
from lipyomo.blocks.tangent import TangentBlock
from lipyomo.blocks.upper import UpperLipschitzBlock
from lipyomo.blocks.use import OneSidedWarning
from lipyomo.networks.scaling import Scaling
from lipyomo.relaxations.linear.derivative import ChainLimits, adjoint_limits, tangent_limits

__all__ = [
    "ChainLimits",
    "DualBallBlock",
    "FixedInputWarning",
    "GradientBlock",
    "LipschitzBlock",
    "NetworkBlock",
    "NetworkGreyBox",
    "NormBlock",
    "OneSidedWarning",
    "ReluNetworkBlock",
    "Scaling",
    "SmoothNetworkBlock",
    "TangentBlock",
    "ToleranceWarning",
    "UpperLipschitzBlock",
    "add_ideal_cuts",
    "add_network",
    "adjoint_limits",
    "rebuild",
    "tangent_limits",
]

# Grey boxes are made of a part of Pyomo that imports SciPy's statistics: half a second.
__getattr__, __dir__ = imported_when_used(__name__, {".grey_box": ("NetworkGreyBox",)})
