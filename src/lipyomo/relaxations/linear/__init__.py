"""Bounds of pre-activations, adjoints and tangents: by intervals, by lines, by linear programs.

Units are replaced as `relax.py` has it, and affine maps substituted back through them (`chain.py`):
so bounds of pre-activations (`preactivation.py`), of adjoints and tangents (`derivative.py`) and of
gradients (`gradient.py`) are found on a domain or a batch of nodes.  On nodes `dual_ascent.py`
makes use of all that is known there.  `limits.py` and `sharpen.py` are for models.
"""

from lipyomo.relaxations.linear.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.relaxations.linear.layers import LayerBounds
from lipyomo.relaxations.linear.preactivation import preactivation_bounds

__all__ = [
    "DerivativeBounds",
    "LayerBounds",
    "adjoint_bounds",
    "preactivation_bounds",
    "tangent_bounds",
]
