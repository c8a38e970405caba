"""What type checkers see of the blocks: `formulation_block` declares their components."""

from lipyomo.blocks.assumptions import FixedInputWarning as FixedInputWarning
from lipyomo.blocks.base import rebuild as rebuild
from lipyomo.blocks.dual_ball import DualBallBlockData
from lipyomo.blocks.gradient import GradientBlockData
from lipyomo.blocks.grey_box import NetworkGreyBox as NetworkGreyBox
from lipyomo.blocks.handle import NetworkBlockData
from lipyomo.blocks.handle import add_network as add_network
from lipyomo.blocks.ideal_cuts import add_ideal_cuts as add_ideal_cuts
from lipyomo.blocks.lipschitz import LipschitzBlockData
from lipyomo.blocks.norm import NormBlockData
from lipyomo.blocks.relu import ReluNetworkBlockData
from lipyomo.blocks.relu import ToleranceWarning as ToleranceWarning
from lipyomo.blocks.smooth import SmoothNetworkBlockData
from lipyomo.blocks.tangent import TangentBlockData
from lipyomo.blocks.typed import Members
from lipyomo.blocks.upper import UpperLipschitzBlockData
from lipyomo.blocks.use import OneSidedWarning as OneSidedWarning
from lipyomo.networks.scaling import Scaling as Scaling

class DualBallBlock(Members[DualBallBlockData], DualBallBlockData): ...
class GradientBlock(Members[GradientBlockData], GradientBlockData): ...
class NetworkBlock(Members[NetworkBlockData], NetworkBlockData): ...
class LipschitzBlock(Members[LipschitzBlockData], LipschitzBlockData): ...
class NormBlock(Members[NormBlockData], NormBlockData): ...
class ReluNetworkBlock(Members[ReluNetworkBlockData], ReluNetworkBlockData): ...
class SmoothNetworkBlock(Members[SmoothNetworkBlockData], SmoothNetworkBlockData): ...
class TangentBlock(Members[TangentBlockData], TangentBlockData): ...
class UpperLipschitzBlock(Members[UpperLipschitzBlockData], UpperLipschitzBlockData): ...
