"""Activations of smooth and piecewise linear units, with sound ranges and bands.

`activation` returns one by its name; `Activation` is their common interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipyomo.base.modules import imported_when_used
from lipyomo.networks.activations.activation import (
    Activation,
    activation,
    activations,
    known_as,
)

if TYPE_CHECKING:
    from lipyomo.networks.activations.derived import Derivative
    from lipyomo.networks.activations.elu import Celu, Elu, Selu
    from lipyomo.networks.activations.erf import Erf
    from lipyomo.networks.activations.gelu import Gelu
    from lipyomo.networks.activations.hard_swish import HardSwish
    from lipyomo.networks.activations.mish import Mish
    from lipyomo.networks.activations.sigmoid import Sigmoid
    from lipyomo.networks.activations.silu import QuickGelu, Silu, Swish
    from lipyomo.networks.activations.sine import Cos, Sin
    from lipyomo.networks.activations.softplus import Softplus
    from lipyomo.networks.activations.softsign import Softsign
    from lipyomo.networks.activations.tanh import Tanh
    from lipyomo.networks.activations.two_slope import TwoSlope
    from lipyomo.networks.activations.unbounded import (
        HALVES,
        Confined,
        Exp,
        Half,
        Log,
        Power,
        Unbounded,
    )

__all__ = [
    "HALVES",
    "Activation",
    "Celu",
    "Confined",
    "Cos",
    "Derivative",
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "Half",
    "HardSwish",
    "Log",
    "Mish",
    "Power",
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
    "Unbounded",
    "activation",
    "activations",
    "known_as",
]

__getattr__, __dir__ = imported_when_used(
    __name__,
    {
        ".derived": ("Derivative",),
        ".elu": ("Celu", "Elu", "Selu"),
        ".erf": ("Erf",),
        ".gelu": ("Gelu",),
        ".hard_swish": ("HardSwish",),
        ".mish": ("Mish",),
        ".sigmoid": ("Sigmoid",),
        ".silu": ("QuickGelu", "Silu", "Swish"),
        ".sine": ("Cos", "Sin"),
        ".softplus": ("Softplus",),
        ".softsign": ("Softsign",),
        ".tanh": ("Tanh",),
        ".two_slope": ("TwoSlope",),
        ".unbounded": ("HALVES", "Confined", "Exp", "Half", "Log", "Power", "Unbounded"),
    },
)
