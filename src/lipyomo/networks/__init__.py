"""Networks: layers, their units, and networks made of networks.

`difference`, `compose`, `parallel`, `affine_after` and `unroll` make one network of several.
"""

from __future__ import annotations

from lipyomo.networks.combined import affine_after, compose, difference, parallel, unroll

__all__ = ["affine_after", "compose", "difference", "parallel", "unroll"]
