"""Comparing several methods on one problem, each in its own process with its own limits."""

from lipyomo.analyses.compare.plot import plot_rows
from lipyomo.analyses.compare.rows import Row, reference_interval, to_csv, to_json, with_errors
from lipyomo.analyses.compare.run import compare, default_methods

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
