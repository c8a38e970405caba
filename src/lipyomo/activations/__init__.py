"""Activations of smooth and piecewise linear units, with sound ranges and bands.

`activation` makes one by its name; `Activation` says what each of them gives.
"""

from lipyomo.activations.activation import Activation
from lipyomo.activations.elu import Celu, Elu, Selu
from lipyomo.activations.erf import Erf
from lipyomo.activations.gelu import Gelu
from lipyomo.activations.hard_swish import HardSwish
from lipyomo.activations.mish import Mish
from lipyomo.activations.registry import activation, activations, known_as
from lipyomo.activations.sigmoid import Sigmoid
from lipyomo.activations.silu import QuickGelu, Silu, Swish
from lipyomo.activations.sine import Cos, Sin
from lipyomo.activations.softplus import Softplus
from lipyomo.activations.softsign import Softsign
from lipyomo.activations.tanh import Tanh
from lipyomo.activations.two_slope import TwoSlope

__all__ = [
    "Activation",
    "Celu",
    "Cos",
    "Elu",
    "Erf",
    "Gelu",
    "HardSwish",
    "Mish",
    "QuickGelu",
    "Selu",
    "Sigmoid",
    "Silu",
    "Sin",
    "Softplus",
    "Softsign",
    "Swish",
    "Tanh",
    "TwoSlope",
    "activation",
    "activations",
    "known_as",
]
