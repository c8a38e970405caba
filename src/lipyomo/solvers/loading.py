"""Loading of solutions into Pyomo models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyomo.common.collections import ComponentMap
from pyomo.contrib.solver.common.solution_loader import SolutionLoader
from pyomo.contrib.solver.common.util import NoDualsError as NoDualsError
from pyomo.contrib.solver.common.util import NoReducedCostsError, NoSolutionError

from lipyomo.base.arrays import FloatArray
from lipyomo.solvers.matrices import LinearModel


class MatrixSolutionLoader(SolutionLoader):
    """The solution of a `LinearModel`, by Pyomo variables and constraints.

    Parameters
    ----------
    pyomo_model : BlockData
        The model whose import suffixes are filled.
    model : LinearModel
    x : numpy.ndarray, shape (columns,), optional
    row_duals : numpy.ndarray, shape (rows,), optional
    reduced_costs : numpy.ndarray, shape (columns,), optional
    """

    def __init__(
        self,
        pyomo_model: Any,
        model: LinearModel,
        x: FloatArray | None,
        row_duals: FloatArray | None = None,
        reduced_costs: FloatArray | None = None,
    ) -> None:
        self._pyomo_model = pyomo_model
        self.model = model
        self._x = x
        self._row_duals = row_duals
        self._reduced_costs = reduced_costs

    def get_number_of_solutions(self) -> int:
        """Return 1 if there is an incumbent."""
        return 0 if self._x is None else 1

    def get_vars(self, vars_to_load: Sequence[Any] | None = None) -> ComponentMap:
        """Return the incumbent; see Pyomo's `SolutionLoader.get_vars`."""
        return self._by_variable(self._x, NoSolutionError, vars_to_load)

    def get_reduced_costs(self, vars_to_load: Sequence[Any] | None = None) -> ComponentMap:
        """Return the reduced costs of a continuous model."""
        return self._by_variable(self._reduced_costs, NoReducedCostsError, vars_to_load)

    def _by_variable(
        self, numbers: FloatArray | None, missing: type[Exception], wanted: Sequence[Any] | None
    ) -> ComponentMap:
        """Return numbers by variable; fixed and unused variables have their current value."""
        if numbers is None:
            raise missing()
        values = ComponentMap(zip(self.model.columns, numbers.tolist(), strict=True))
        if wanted is None:
            return values
        return ComponentMap((var, values.get(var, var.value)) for var in wanted)

    def get_duals(self, cons_to_load: Sequence[Any] | None = None) -> dict[Any, float]:
        """Return the duals of a continuous model; a range constraint has the sum of two rows."""
        if self._row_duals is None:
            raise NoDualsError()
        duals: dict[Any, float] = {}
        pairs = zip(self.model.constraints, self._row_duals.tolist(), strict=True)
        for constraint, dual in pairs:
            duals[constraint] = duals.get(constraint, 0.0) + dual
        if cons_to_load is None:
            return duals
        return {constraint: duals[constraint] for constraint in cons_to_load}

    def load_import_suffixes(self) -> None:
        """Fill the model's ``dual`` and ``rc`` suffixes, if values are available."""
        suffixes = self._collect_and_clear_import_suffixes()
        if "dual" in suffixes and self._row_duals is not None:
            suffixes["dual"].update(self.get_duals())
        if "rc" in suffixes and self._reduced_costs is not None:
            suffixes["rc"].update(self.get_reduced_costs())
