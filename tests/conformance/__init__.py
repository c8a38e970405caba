"""The conformance suite: what every solver adapter must do.

For an adapter of your own, put this into a test file and run pytest on it::

    from conformance import SolverContract

    class TestMySolver(SolverContract):
        def make_solver(self):
            return MySolver()

Any adapter of Pyomo's ``contrib.solver`` can be tested.  Set the class attributes to False for what
it cannot do.
"""

from __future__ import annotations

from conformance.base import ContractBase
from conformance.control import ControlContract
from conformance.endings import StatusContract
from conformance.features import FeatureContract
from conformance.models import ModelContract

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
