"""ONNX files of hostile networks through the command line, in this process, to the last digit."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from flint import arb
from fuzz_domains import domain_of, norms_of
from fuzz_judge import faults
from fuzz_networks import Rng
from fuzz_onnx import graph
from fuzz_oracle import Oracle, PlainDomain

from lipyomo import LipyomoError, Status
from lipyomo.cli.main import main

METHODS = ("auto", "auto", "bnb", "interval", "crown", "sdp", "mip")


@dataclass(frozen=True)
class Answer:
    """What the command line printed, as the judge reads it."""

    lower: float
    upper: float
    status: Status
    witness: object


def run(*words: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``lipyomo WORDS``."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def _box(folder: Path, low: np.ndarray, high: np.ndarray) -> str:
    np.save(folder / "low.npy", low)
    np.save(folder / "high.npy", high)
    return f"{folder / 'low.npy'},{folder / 'high.npy'}"


def domain_words(folder: Path, domain: PlainDomain) -> list[object]:
    """The options that give a domain."""
    box = _box(folder, domain.lower, domain.upper)
    clip = ["--clip", box] if np.isfinite(domain.lower).all() else []
    if domain.ball is not None:
        norm, center, radius = domain.ball
        np.save(folder / "center.npy", center)
        ball = ["--ball", folder / "center.npy", "--radius", repr(radius), "--ball-norm", norm]
        return [*ball, *clip]
    if len(domain.b):
        np.savez(folder / "rows.npz", A=domain.A, b=domain.b)
        return ["--polytope", folder / "rows.npz", *clip]
    if np.isinf(domain.lower).all() and np.isinf(domain.upper).all():
        return ["--everywhere"]
    return ["--box", box]


def norm_words(folder: Path, input_norm: str, outputs: dict[str, object]) -> list[object]:
    """The options that give both norms."""
    words: list[object] = ["--norm", input_norm]
    if "functional" in outputs:
        np.save(folder / "c.npy", outputs["functional"])
        return [*words, "--functional", folder / "c.npy"]
    return [*words, "--output-norm", outputs["output_norm"]]


def command_line(rng: Rng, folder: Path) -> tuple[list[str], list[object], arb]:
    """One file, one command; the faults of the answer, the command, and the constant.

    Raises
    ------
    LipyomoError, OverflowError
        If there is no such domain, or the oracle gives up.
    """
    g = graph(rng)
    model = g.model()
    onnx.checker.check_model(model)
    onnx.save(model, folder / "net.onnx")
    _, domain = domain_of(rng, g.inputs)
    input_norm, outputs, functionals = norms_of(rng, g.width)
    truth = Oracle(g.layers, domain, input_norm, functionals).constant()
    method = str(rng.choice(METHODS))
    words = [folder / "net.onnx", *domain_words(folder, domain)]
    words += [*norm_words(folder, input_norm, outputs), "--method", method, "--time-limit", 10]
    proof = ["--proof", folder / "proof.gz"] if method == "bnb" else []
    code, out, err = run(*words, *proof, "--json", "--quiet")
    if code == 1:
        if "disagree" in err or "unexpected" in err or "defect" in err:
            return [err.strip()], words, truth
        raise LipyomoError(err.strip())
    found = json.loads(out)
    upper = np.inf if found["upper"] is None else found["upper"]
    answer = Answer(found["lower"], upper, Status(found["status"]), found.get("witness"))
    wrong = faults(answer, truth)
    if proof and (folder / "proof.gz").exists():
        code, _, err = run("verify", folder / "proof.gz", folder / "net.onnx", "--quiet")
        if code != 0:
            wrong.append(f"proof rejected ({code}): {err.strip()}")
    return [f"{fault}: [{answer.lower!r}, {answer.upper!r}]" for fault in wrong], words, truth
