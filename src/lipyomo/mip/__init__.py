"""From a problem to mixed-integer models: cells of the domain, model, starts, no-good cuts."""

from lipyomo.base.system import (  # before any of Pyomo
    pyomo_without_statistics as pyomo_without_statistics,
)
