"""What a file of domains may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.system.memory import KEPT


@dataclass(frozen=True)
class Params:
    """Limits that only a damaged or hostile file reaches.

    Attributes
    ----------
    parts : int
        Of a disjunction that is multiplied out.
    bytes : int
        Of a file, unpacked.
    """

    parts: int = 10_000
    bytes: int = KEPT


PARAMS = Params()
