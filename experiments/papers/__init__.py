"""Tables and figures of the LipMIP paper (Jordan and Dimakis, NeurIPS 2020), made again."""

from experiments.papers.report import NAMES, Report, reproduce

__all__ = ["NAMES", "Report", "reproduce"]
