"""Importers of Python objects: PyTorch modules and scikit-learn estimators."""

from __future__ import annotations

from lipyomo.formats.importers.sklearn import from_sklearn
from lipyomo.formats.importers.torch import from_torch

__all__ = ["from_sklearn", "from_torch"]
