"""The formats of proof files, and the features of each."""

from __future__ import annotations

from enum import Enum

FORMAT = "lipyomo-proof-4"
DIRECTED_FORMAT = "lipyomo-proof-5"
"""The same with directions, which readers of the first format do not support."""
SMOOTH_FORMAT = "lipyomo-proof-7"
"""The format of networks with smooth units."""
PRODUCT_FORMAT = "lipyomo-proof-8"
"""The format of networks with products, or with units that earlier formats do not have."""
LINE_FORMAT = "lipyomo-proof-9"
"""The format of boxes of networks with two-slope units."""
JOINT_FORMAT = "lipyomo-proof-10"
"""The format of networks with products of two signals."""
PAIR_FORMAT = "lipyomo-proof-11"
"""The format of boxes of networks with two-slope units alone, all pairs of a box together."""
SQUARE_FORMAT = "lipyomo-proof-12"
"""The format of networks with products whose sums of squares have tangents where they are least."""


class Edition(Enum):
    """The features of bounds on boxes, in the order of their formats."""

    BOXES = "lipyomo-proof-smooth-1"
    """Boxes alone, and no Euclidean norms."""

    DOMAINS = "lipyomo-proof-6"
    """Half-spaces of the domain as well."""

    PLANES = SMOOTH_FORMAT
    """Planes above products, parabolas above chords, and the half-spaces of split boxes."""

    PRODUCTS = PRODUCT_FORMAT
    """Products of signals, powers, exponentials and logarithms, and derivatives as units."""

    LINES = LINE_FORMAT
    """Two lines of each two-slope unit, with slopes of their own, and flat ones of its slope."""

    JOINT = JOINT_FORMAT
    """Products with a factor in common as two products of sums, sums of squares and products as one
    function, and tangents of roots by ratios."""

    PAIRS = PAIR_FORMAT
    """Two-slope units only, in norms without Euclidean balls: all pairs of a box together."""

    SQUARES = SQUARE_FORMAT
    """The features of `JOINT`, and the least value of sums of squares."""

    @property
    def plain(self) -> bool:
        """Whether bounds are those of the first two formats."""
        return self in (Edition.BOXES, Edition.DOMAINS)

    @property
    def products(self) -> bool:
        """Whether networks may have products, and claims be about values."""
        return self in (Edition.PRODUCTS, Edition.LINES) or self.joint

    @property
    def two_lines(self) -> bool:
        """Whether two-slope units have two lines."""
        return self is Edition.LINES or self.joint

    @property
    def joint(self) -> bool:
        """Whether products, and sums of squares and products, are bounded together."""
        return self in (Edition.JOINT, Edition.SQUARES)
