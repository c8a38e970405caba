"""The conformance suite: what every solver adapter must do.

For an adapter of your own, put this into a test file and run pytest on it::

    from lipyomo.solvers.contract import SolverContract

    class TestMySolver(SolverContract):
        def make_solver(self):
            return MySolver()

Any adapter of Pyomo's ``contrib.solver`` can be tested.  Set the class attributes to False for what
it cannot do.
"""

from __future__ import annotations

from lipyomo.solvers.contract.base import ContractBase
from lipyomo.solvers.contract.control import ControlContract
from lipyomo.solvers.contract.endings import StatusContract
from lipyomo.solvers.contract.features import FeatureContract
from lipyomo.solvers.contract.models import ModelContract

__all__ = [
    "ContractBase",
    "ControlContract",
    "FeatureContract",
    "ModelContract",
    "SolverContract",
    "StatusContract",
]


class SolverContract(StatusContract, ModelContract, FeatureContract, ControlContract):
    """All checks; see the module's docstring for how to run them on an adapter of your own."""
