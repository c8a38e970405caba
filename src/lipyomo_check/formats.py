"""The formats of proof files, and the features of each."""

from __future__ import annotations

from enum import Enum

FORMAT = "lipyomo-proof-4"
DIRECTED_FORMAT = "lipyomo-proof-5"
"""The same with directions, which readers of the first format do not support."""


class Edition(Enum):
    """The formats of bounds on boxes."""

    SMOOTH = "lipyomo-proof-7"
    """Smooth units, and lines of one slope for two-slope ones."""

    PRODUCTS = "lipyomo-proof-8"
    """Products and all other units as well, claims about values, and two lines of two-slope units,
    with slopes of their own, and flat ones of its slope."""

    PAIRS = "lipyomo-proof-9"
    """Two-slope units only, in norms without Euclidean balls: all pairs of a box together."""
