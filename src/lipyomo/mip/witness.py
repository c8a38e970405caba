"""The witness of a run's lower bound, for the models of cells."""

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
    """The attained value and its point, in the units of a scaled problem.

    Attributes
    ----------
    run : Run
    units : ScaledProblem
    """

    run: Run
    units: ScaledProblem

    @property
    def value(self) -> float:
        """The attained value."""
        return self.units.inward(self.run.lower)

    def value_left(self, model: CellModel, cell: Cell) -> float:
        """Return the witness's value if its pattern is still in the model, otherwise zero."""
        x = self._point(cell)
        if x is None or model.excludes(self.units.problem.network.pattern(x)):
            return 0.0
        return self.value

    def _point(self, cell: Cell) -> FloatArray | None:
        """Return the witness's point in the reduced problem, if it lies in the cell."""
        witness = self.run.witness
        if witness is None or witness.rest is not None or not self._covers(cell, witness):
            return None
        x = self.run.problem.reduced.reduce_point(witness.x)
        return x if bool(cell.domain.contains(x)) else None

    def _covers(self, cell: Cell, witness: Witness) -> bool:
        """Return whether the cell's remaining functionals attain the witness's value."""
        if cell.norm is self.units.problem.output_norm:
            return True
        x = self.run.problem.reduced.reduce_point(witness.x)
        jacobian = self.units.problem.tangent_network.jacobian(
            self.units.problem.network.pattern(x)
        )
        found = operator_norm(jacobian, self.units.problem.norm, cell.norm)
        return found.value >= self.units.inward(witness.value) * (1.0 - 1e-9)

    def start(self, model: CellModel, cell: Cell) -> Any:
        """Return the witness as a warm start, if it lies in the cell and is not cut off."""
        x = self._point(cell)
        if x is None:
            return None
        pattern = self.units.problem.network.pattern(x)
        return None if model.excludes(pattern) else model.start(x, pattern)
