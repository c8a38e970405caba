"""Networks: layers, their units, and functions that combine networks.

`difference`, `compose`, `parallel`, `affine_after` and `unroll` combine networks to one, as do
`product`, `quotient` and `square`.  `gradient`, `jacobian`, `hessian`, `directional` and `residual`
return networks of derivatives.  `quantised_difference` is for step functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipyomo.base.modules import imported_when_used

if TYPE_CHECKING:
    from lipyomo.networks.combined import affine_after, compose, difference, parallel, unroll
    from lipyomo.networks.derivatives.expressions import residual
    from lipyomo.networks.derivatives.gradients import directional, gradient, hessian, jacobian
    from lipyomo.networks.derivatives.products import product, quotient, square
    from lipyomo.networks.quantised import quantised_difference

__all__ = [
    "affine_after",
    "compose",
    "difference",
    "directional",
    "gradient",
    "hessian",
    "jacobian",
    "parallel",
    "product",
    "quantised_difference",
    "quotient",
    "residual",
    "square",
    "unroll",
]

__getattr__, __dir__ = imported_when_used(
    __name__,
    {
        ".combined": ("affine_after", "compose", "difference", "parallel", "unroll"),
        ".derivatives.expressions": ("residual",),
        ".derivatives.gradients": ("directional", "gradient", "hessian", "jacobian"),
        ".derivatives.products": ("product", "quotient", "square"),
        ".quantised": ("quantised_difference",),
    },
)
