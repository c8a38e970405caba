"""``lipyomo certify``: certified robustness of a classifier at the points of a data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.analyses.certification import (
    Classifier,
    PointSettings,
    RobustnessReport,
    RobustnessRow,
)
from lipyomo.analyses.certification.plot import plot_curves
from lipyomo.analyses.certification.point import METHODS, PointKeywords
from lipyomo.analyses.certification.report import RobustnessTask, data_rows, read_radii
from lipyomo.base.decimals import down, up
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.rows import EXIT_CODES, RowsJob, rows_parser, show_facts, show_unusable
from lipyomo.cli.settings import given, name_solver_files
from lipyomo.networks.network import Network
from lipyomo.problems.run import PROVED

COLUMNS = (
    "index", "predicted", "label", "margin", "radius", "certified_radius", "adversarial_radius",
    "verdict", "method", "basis", "seconds", "error",
)  # fmt: skip
EXAMPLE = """
example:
  lipyomo certify net.onnx test.npz --radius 0.02 --clip 0,1 --rows rows.csv
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo certify`` with these arguments; return the exit code."""
    arguments = _parser().parse_args(words)
    radius = arguments.radius
    settings = PointSettings(
        float(np.max(radius)) if np.size(radius) else math.nan,
        radii=not arguments.no_radii,
        **given(arguments, PointKeywords),
    )
    if arguments.solver != "auto":
        name_solver_files(None)
    job = RowsJob(arguments)
    chosen = arguments.threshold
    classifier = Classifier(job.network, arguments.norm, arguments.clip, arguments.weights, chosen)
    task = RobustnessTask(classifier, settings, job.onnx)
    radii = read_radii(radius, len(job.whole.inputs))[: len(job.data.inputs)]
    points, labels = job.data.inputs, job.data.labels
    jobs = data_rows(classifier, points, labels, radii, chosen is not None)
    job.announce(("decision", classifier.decision))
    head = job.head("radius", "norm", "methods", "exact", "solver", "no_radii", "seed", "threshold")
    head["ladder"] = head.pop("methods")  # its name in files, since 0.1.0
    worked = job.decide(task, jobs, COLUMNS, head, _line)
    report = RobustnessReport(
        None if np.ndim(radius) else settings.radius,
        tuple(map(RobustnessRow.from_dict, worked.rows)),
        classifier.decision,
        job.data.columns,
    )

    def plot() -> None:
        if report.used:
            plot_curves({arguments.network.stem: report}, arguments.plot)

    return worked.finish(arguments, report.to_dict(), lambda: _show(report, job.network), plot)


def _parser() -> Parser:
    parser = rows_parser(
        "certify",
        "Robustness of a classifier at the points of a data set: certified radii,\n"
        "adversarial examples, verdicts.",
        EXIT_CODES + EXAMPLE,
        (10.0, "a point"),
    )
    text = "of the verdicts: a number, or a .npy file with one for each row"
    add_options(parser, "--radius", type="side", required=True, help=text)
    add_options(parser, "--threshold")
    metric = parser.add_mutually_exclusive_group()
    add_options(metric, "--norm", help="of perturbations (linf)")
    add_options(
        metric,
        "--dual-ball",
        dest="norm",
        help="a (fair) metric of the inputs instead, by its dual ball: vertices, or A and b",
    )
    add_options(parser, "--weights", help="perturbations s are measured by |s / W| in the norm")
    shown = f"what certifies, in this order ({','.join(METHODS)})"
    add_options(parser, "--methods", help=shown, default=METHODS)
    add_options(parser, "--exact")
    add_options(
        parser, "--solver", help="decide by a MIP over the network instead of --exact's search"
    )
    add_options(parser, "--no-radii")
    add_options(parser, "--seed", help="of the attack (0)")
    add_options(parser, "--plot", help="draw certified accuracy")
    return parser


def _line(found: dict[str, Any]) -> str:
    row = RobustnessRow.from_dict(found)
    if row.error is not None:
        return f"{row.index:6d}  {row.error}"
    outer = "" if math.isinf(row.adversarial_radius) else f" < {up(row.adversarial_radius, 4)}"
    return (
        f"{row.index:6d}  {row.verdict!s:<14} class {row.predicted}  "
        f"radius {down(row.certified_radius, 4)}{outer}  {row.method}  {row.seconds:.2f} s"
        f"{'' if row.basis in (None, PROVED) else f'  on the word of a {row.basis}'}"
    )


def _units(network: Network) -> str:
    """Describe the units of radii; the network's first layers may scale its inputs."""
    scales = np.ones(network.input_dim)
    for layer in network.layers:
        if not layer.is_affine or layer.weight.shape != (scales.size, scales.size):
            break
        weight = sp.csr_array(layer.weight)
        if weight.count_nonzero() != np.count_nonzero(weight.diagonal()):
            break
        scales = scales * weight.diagonal()
    least, most = np.abs(scales).min(), np.abs(scales).max()
    if least == most == 1.0:
        return "units of the inputs"
    by = f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
    return f"units of the inputs, before the network scales them by {by}"


def _radii(report: RobustnessReport, network: Network) -> str:
    """Describe the radius of the verdicts, with its units."""
    radii = report.radii
    ends = [f"{radius:g}" for radius in (radii[0], radii[-1])] if radii else ["-"]
    return f"{' to '.join(dict.fromkeys(ends))}, in {_units(network)}"


def _show(report: RobustnessReport, network: Network) -> None:
    found = report.summary()
    show_facts([("radius", _radii(report, network))])
    show_facts((name, found[name]) for name in ("rows", "unusable"))
    show_unusable(found["why unusable"])
    counts = ("robust", "not robust", "misclassified", "open")
    show_facts((name, found[name]) for name in counts)
    for name in ("clean accuracy", "certified accuracy", "decided"):
        show_facts([(name, f"{100 * found[name]:.1f} %")])
    if found["on a solver's word"]:
        show_facts([("on a solver's word", found["on a solver's word"])])
    by = ", ".join(f"{name} {count}" for name, count in found["decided by"].items())
    show_facts([("decided by", by or "-")])
    if found["median seconds"] is not None:
        show_facts([("median", f"{found['median seconds']:.2f} s a point")])
