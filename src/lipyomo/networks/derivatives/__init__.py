"""Derivatives of networks, and products of networks, as networks."""

from lipyomo.networks.derivatives.expressions import Expression, residual
from lipyomo.networks.derivatives.gradients import (
    directional,
    gradient,
    hessian,
    jacobian,
)
from lipyomo.networks.derivatives.products import product, quotient, square

__all__ = [
    "Expression",
    "directional",
    "gradient",
    "hessian",
    "jacobian",
    "product",
    "quotient",
    "residual",
    "square",
]
