"""Activations of smooth and piecewise linear units, with sound ranges and bands.

`activation` makes one by its name; `Activation` says what each of them gives.
"""

from lipyomo.activations.activation import Activation, activation, activations, known_as
from lipyomo.activations.sigmoid import Sigmoid
from lipyomo.activations.sine import Cos, Sin
from lipyomo.activations.tanh import Tanh
from lipyomo.activations.two_slope import TwoSlope

__all__ = [
    "Activation",
    "Cos",
    "Sigmoid",
    "Sin",
    "Tanh",
    "TwoSlope",
    "activation",
    "activations",
    "known_as",
]
