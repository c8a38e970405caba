"""Decisions about a model on data, by Lipschitz constants: robustness and monotone inputs."""

from lipyomo.analyses.certification.classifier import Classifier
from lipyomo.analyses.certification.monotone import (
    MonotoneReport,
    MonotoneRow,
    Trend,
    check_monotone,
)
from lipyomo.analyses.certification.point import (
    PointSettings,
    RobustnessRow,
    Verdict,
    certify_point,
)
from lipyomo.analyses.certification.report import RobustnessReport, certify_robustness

__all__ = [
    "Classifier",
    "MonotoneReport",
    "MonotoneRow",
    "PointSettings",
    "RobustnessReport",
    "RobustnessRow",
    "Trend",
    "Verdict",
    "certify_point",
    "certify_robustness",
    "check_monotone",
]
