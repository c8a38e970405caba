"""Bounds of pre-activations, adjoints and tangents: by intervals, by lines, by linear programs.

`relax.py` replaces units by lines, and `chain.py` substitutes affine maps back through them.  This
yields bounds of pre-activations (`preactivation.py`), of adjoints and tangents (`derivative.py`)
and of gradients (`gradient.py`), on a domain or on a batch of nodes.  `dual_ascent.py` also uses
the branching decisions of a node.  `sharpen.py` is for models.
"""

from lipyomo.relaxations.linear.derivative import ChainLimits, adjoint_limits, tangent_limits
from lipyomo.relaxations.linear.layers import LayerBounds
from lipyomo.relaxations.linear.preactivation import preactivation_bounds

__all__ = [
    "ChainLimits",
    "LayerBounds",
    "adjoint_limits",
    "preactivation_bounds",
    "tangent_limits",
]
