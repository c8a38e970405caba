"""Comparing several methods on one problem, each in its own process with its own limits."""

from lipyomo.analyses.compare.plot import plot_rows
from lipyomo.analyses.compare.run import (
    Row,
    compare,
    default_methods,
    reference_interval,
    to_csv,
    to_json,
    with_errors,
)

__all__ = [
    "Row",
    "compare",
    "default_methods",
    "plot_rows",
    "reference_interval",
    "to_csv",
    "to_json",
    "with_errors",
]
