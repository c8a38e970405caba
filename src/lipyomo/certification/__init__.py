"""Robustness of a classifier's decisions, from Lipschitz constants of its margins."""

from lipyomo.certification.classifier import Classifier
from lipyomo.certification.point import PointSettings, RobustnessRow, Verdict, certify_point
from lipyomo.certification.report import RobustnessReport, certify_robustness

__all__ = [
    "Classifier",
    "PointSettings",
    "RobustnessReport",
    "RobustnessRow",
    "Verdict",
    "certify_point",
    "certify_robustness",
]
