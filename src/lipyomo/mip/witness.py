"""The point that attains a run's lower end, as models of cells see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lipyomo.base.arrays import FloatArray
from lipyomo.mip.cells import Cell
from lipyomo.mip.model import CellModel
from lipyomo.mip.scaling import ScaledProblem
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.result import Witness
from lipyomo.problems.run import Run


@dataclass(frozen=True, eq=False)
class WitnessInCells:
    """What is attained, in the units of a scaled problem.

    Attributes
    ----------
    run : Run
    units : ScaledProblem
    """

    run: Run
    units: ScaledProblem

    @property
    def value(self) -> float:
        """What is attained."""
        return self.units.inward(self.run.lower)

    def value_left(self, model: CellModel, cell: Cell) -> float:
        """The witness's value if the model still has to account for it, else zero."""
        x = self._point(cell)
        if x is None or model.excludes(self.units.problem.network.pattern(x)):
            return 0.0
        return self.value

    def _point(self, cell: Cell) -> FloatArray | None:
        """The witness's point in the reduced problem, if it lies in the cell."""
        witness = self.run.witness
        if witness is None or witness.rest is not None or not self._covers(cell, witness):
            return None
        x = self.run.problem.reduced.reduce_point(witness.x)
        return x if bool(cell.domain.contains(x)) else None

    def _covers(self, cell: Cell, witness: Witness) -> bool:
        """Whether the functionals that are left in the cell reach the witness's value."""
        if cell.norm is self.units.problem.output_norm:
            return True
        x = self.run.problem.reduced.reduce_point(witness.x)
        jacobian = self.units.problem.tangent_network.jacobian(
            self.units.problem.network.pattern(x)
        )
        found = operator_norm(jacobian, self.units.problem.norm, cell.norm)
        return found.value >= self.units.inward(witness.value) * (1.0 - 1e-9)

    def start(self, model: CellModel, cell: Cell) -> Any:
        """The witness as a start, if it lies in the cell and is not cut off."""
        x = self._point(cell)
        if x is None:
            return None
        pattern = self.units.problem.network.pattern(x)
        return None if model.excludes(pattern) else model.start(x, pattern)
