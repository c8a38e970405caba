"""What is known of the pre-activations of a network."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.network import FloatArray
from lipyomo.phases import Phases, count_open


@dataclass(frozen=True)
class LayerBounds:
    """Bounds of all pre-activations.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair a hidden layer; infinite where nothing is known.
    rung : str
        Highest rung that was used: interval, linear, ascent or lp.
    phases : tuple of int8 arrays
        The given phases with every unit closed that the bounds decide.
    empty : bool
        Whether the given phases contradict the bounds: no point of the domain has them.  The
        bounds mean nothing then.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    rung: str
    phases: Phases
    empty: bool = False

    @property
    def unstable(self) -> int:
        """Number of units that stayed open."""
        return count_open(self.phases)
