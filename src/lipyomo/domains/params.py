"""What a file of domains may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """Limits that only a damaged or hostile file reaches.

    Attributes
    ----------
    parts : int
        Of a disjunction that is multiplied out.
    bytes : int
        Of a file, unpacked.
    deepest : int
        Parentheses in each other.
    digits : int
        Characters of a number.
    """

    parts: int = 10_000
    bytes: int = 1 << 28
    deepest: int = 100
    digits: int = 1000


PARAMS = Params()
