"""Tools that give a number for an instance: the methods of lipyomo, and any command."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

import lipyomo
from experiments.benchmark.instances import Instance
from lipyomo.base.errors import LipyomoError
from lipyomo.methods.registry import methods

ESTIMATORS = (
    "naive", "interval", "fastlip", "crown", "eclipse", "lipsdp", "sdp", "lp", "hr2", "seqlip",
    "clever", "random_lb", "local_search",
)  # fmt: skip
"""Methods of lipyomo that `estimates` runs: those of the literature and its own bounds."""

LIRPA = "auto_lirpa"


def guarantee_of(tool: str) -> str:
    """``upper``, ``lower``, ``heuristic`` or ``exact``; ``claimed`` for a command."""
    known = methods()
    return str(known[tool].guarantee) if tool in known else "claimed"


def estimate(method: str, instance: Instance, seconds: float) -> tuple[float | None, float]:
    """What a method of lipyomo says, and its CPU seconds; nothing where it refuses the instance."""
    began = time.process_time()
    try:
        result = lipyomo.solve(instance.problem, method, time_limit=seconds, attain=False)
    except LipyomoError:
        return None, time.process_time() - began
    value = result.value
    return (value if math.isfinite(value) else None), time.process_time() - began


def ask(tool: str, instance: Instance, seconds: float) -> tuple[float | None, float]:
    """Run a tool in a process of its own.

    Parameters
    ----------
    tool : str
        A method of lipyomo, ``lipyomo`` for its search, ``auto_lirpa``, or a command with
        ``{network}``, ``{lower}``, ``{upper}`` (``.npy`` files), ``{norm}``, ``{output_norm}`` and
        ``{functional}`` in it, whose last printed number is its answer.
    instance : Instance
    seconds : float
        After which the process is ended.

    Returns
    -------
    value : float or None
        None where the tool refuses the instance, fails or takes too long.
    seconds : float
        CPU seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = _words(tool, instance, seconds, Path(folder))
        printed, _, spent = timed(words, 2 * seconds + 30)
    return (_from_json(printed) if words[1:3] == ["-m", "lipyomo"] else _last(printed)), spent


def timed(words: Sequence[str], limit: float | None = None) -> tuple[str, str, float]:
    """What a command with one thread prints, on stdout and stderr, and its CPU seconds.

    Nothing if it cannot be run, or takes more than `limit` seconds.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    printed = "", ""
    with suppress(subprocess.TimeoutExpired, OSError):
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=limit, env=env, check=False
        )
        printed = ran.stdout, ran.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return *printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _words(tool: str, instance: Instance, seconds: float, folder: Path) -> list[str]:
    if tool == "lipyomo" or tool in methods():
        words = [sys.executable, "-m", "lipyomo", *instance.words, "--json"]
        chosen = [] if tool == "lipyomo" else ["--method", tool]
        return [*words, *chosen, "--time-limit", repr(seconds), "--quiet"]
    lower, upper = folder / "lower.npy", folder / "upper.npy"
    np.save(lower, np.array(instance.lower))
    np.save(upper, np.array(instance.upper))
    if tool == LIRPA:
        ends = ["--lower", str(lower), "--upper", str(upper), "--norm", instance.norm]
        ends += ["--outputs", str(lipyomo.load(instance.path).output_dim)]
        if instance.functional is not None:
            ends.append("--functional=" + ",".join(map(repr, instance.functional)))
        return [sys.executable, "-m", "experiments.benchmark.lirpa_tool", str(instance.path), *ends]
    c = "" if instance.functional is None else ",".join(map(repr, instance.functional))
    return [
        word.format(
            network=instance.path,
            lower=lower,
            upper=upper,
            norm=instance.norm,
            output_norm=instance.output_norm,
            functional=c,
        )
        for word in shlex.split(tool)
    ]


def _from_json(printed: str) -> float | None:
    """The end that a method of lipyomo guarantees, or what it estimates."""
    try:
        record = json.loads(printed)
    except ValueError:
        return None
    kind = record.get("guarantee")
    name = {"lower": "lower", "heuristic": "estimate"}.get(kind, "upper")
    value = record.get(name)
    return None if value is None else float(value)


def _last(printed: str) -> float | None:
    """The last number of a text."""
    found = re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", printed)
    return float(found[-1]) if found else None
