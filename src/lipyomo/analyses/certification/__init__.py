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
    RobustnessVerdict,
    certify_point,
)
from lipyomo.analyses.certification.report import RobustnessReport, certify_robustness
from lipyomo.base.arguments import renamed_names

__all__ = [
    "Classifier",
    "MonotoneReport",
    "MonotoneRow",
    "PointSettings",
    "RobustnessReport",
    "RobustnessRow",
    "RobustnessVerdict",
    "Trend",
    "certify_point",
    "certify_robustness",
    "check_monotone",
]

__getattr__ = renamed_names(__name__, {"Verdict": "RobustnessVerdict"})
