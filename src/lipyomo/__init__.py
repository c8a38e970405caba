"""Local Lipschitz constants of piecewise-linear networks: exact where possible, checked always."""

from lipyomo.version import __version__

__all__ = ["__version__"]
