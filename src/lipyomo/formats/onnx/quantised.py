"""Quantised models: import, and comparison with onnxruntime signal by signal."""

from __future__ import annotations

import math
import os

import numpy as np
import onnx

from lipyomo.base.arguments import instance
from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.onnx.arrange import Fixed, Output, report_choices
from lipyomo.formats.onnx.check import CheckFailed, Sampler, evaluations, judged, sampled
from lipyomo.formats.onnx.lower import lower_graph
from lipyomo.formats.onnx.lower.quantised import Quantisers
from lipyomo.formats.onnx.read import PathLike, opened
from lipyomo.formats.onnx.runtime import UNCHECKED, open_runtime
from lipyomo.formats.onnx.select import select_graph
from lipyomo.networks.building.budget import limits, spending
from lipyomo.networks.network import Network
from lipyomo.networks.quantised import QuantisedNetwork, is_rounded, of_network
from lipyomo.problems.problem import LOOKS


@with_one_blas_thread
def load_quantised(
    model: onnx.ModelProto | PathLike,
    output: Output = None,
    check: bool = True,
    domain: Sampler | None = None,
    time_limit: float = math.inf,
    memory_limit: int | str | None = None,
    fixed: Fixed | None = None,
) -> QuantisedNetwork:
    """Import a model with quantised activations: pairs of QuantizeLinear and DequantizeLinear.

    The result is the function of the graph in real arithmetic, with rounding to the nearest step.
    onnxruntime computes in float32, so that a signal near the middle of two steps may be rounded to
    either.

    Parameters
    ----------
    model : onnx.ModelProto or path
        Models without quantised activations are accepted as well.
    output, check, domain, time_limit, memory_limit, fixed
        As for `lipyomo.load`.

    Returns
    -------
    QuantisedNetwork

    Raises
    ------
    ImportRefused
        As for `lipyomo.load`.
    """
    kinds = (onnx.ModelProto, str, os.PathLike)
    instance(model, kinds, "the model", ImportRefused, "give the path of an ONNX file")
    with spending(limits(time_limit, memory_limit)):
        proto, name = opened(model)
        report_choices(proto, output, fixed)
        errors, held = Quantisers(held=False), Quantisers(held=True)
        network = lower_graph(select_graph(proto, output, fixed), name, quantisers=errors)
        if not errors.met:
            found = of_network(network)
        else:
            exact = lower_graph(select_graph(proto, output, fixed), name, quantisers=held)
            parts = [
                np.concatenate([getattr(one, part) for one in held.met])
                for part in ("step", "low", "high")
            ]
            found = QuantisedNetwork(network, exact, *parts)
        if check:
            check_quantised(found, proto, domain, output=output, fixed=fixed)
        return found


@with_one_blas_thread
def check_quantised(
    quantised: QuantisedNetwork,
    model: onnx.ModelProto | PathLike,
    domain: Sampler | None = None,
    samples: int = LOOKS,
    output: Output = None,
    fixed: Fixed | None = None,
) -> float:
    """Compare with onnxruntime: each signal, given the previous rounded ones.

    Parameters
    ----------
    quantised : QuantisedNetwork
    model : onnx.ModelProto or path
        The imported model.
    domain : object with ``sample(rng, count)``, optional
    samples : int, optional
        Number of random points.
    output, fixed
        As for `lipyomo.load`.

    Returns
    -------
    float
        The largest difference of outputs or signals, given the rounded signals of onnxruntime.

    Raises
    ------
    CheckFailed
        If a signal or an output differs by more than float32 rounding explains, or a signal is not
        rounded to the nearest step.
    """
    proto = opened(model).model
    runtime = open_runtime(proto, output, fixed)
    points = sampled(domain, quantised.input_dim, samples)
    noted = Quantisers(held=True)

    def separate() -> Network:
        """Return the network with a layer for every node, and record the quantisers."""
        noted.met.clear()
        return lower_graph(select_graph(proto, output, fixed), separate=True, quantisers=noted)

    separate()
    inner = next((one for one in noted.met if one.made not in runtime.names), None)
    if inner is not None:
        raise ImportRefused(
            f"the signal '{inner.signal}' is rounded inside a branch, so the import cannot be "
            "checked",
            remedy=f"simplify the model first (for example with onnxsim); {UNCHECKED}",
        )
    found = evaluations(runtime, quantised.input_dim, points, noted.met)
    found.points[:, quantised.input_dim :] *= quantised.step
    difference = judged(quantised.held, runtime, found, separate)
    signals = found.expected[:, quantised.output_dim :]
    held = found.points[:, quantised.input_dim :]
    wrong = np.argwhere(~is_rounded(quantised, signals, held))
    if wrong.size:
        at = tuple(wrong[0])
        raise CheckFailed(
            f"{runtime.name} rounds {signals[at]:.9g} to {held[at]:.9g}, which is not the nearest "
            f"multiple of {quantised.step[at[1]]:.9g}",
            float(abs(signals[at] - held[at])),
            0.5 * float(quantised.step[at[1]]),
        )
    return difference
