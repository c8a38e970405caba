"""Import of ONNX files and models as networks, with a comparison with onnxruntime."""

from __future__ import annotations

import math
import os
from types import NoneType

import onnx

from lipyomo.base.arguments import instance
from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.onnx.arrange import Fixed, Output, report_choices
from lipyomo.formats.onnx.check import Sampler, check_against_runtime
from lipyomo.formats.onnx.lower import lower_graph
from lipyomo.formats.onnx.read import Opened, PathLike, opened
from lipyomo.formats.onnx.select import select_graph
from lipyomo.networks.building.budget import limits, spending
from lipyomo.networks.network import Network


@with_one_blas_thread
def load(
    path: PathLike,
    output: Output = None,
    check: bool = True,
    domain: Sampler | None = None,
    time_limit: float = math.inf,
    memory_limit: int | str | None = None,
    fixed: Fixed | None = None,
) -> Network:
    """Import an ONNX file.

    Parameters
    ----------
    path : str or path-like
    output : str or sequence of str, optional
        Tensor or node that is the output, for example the logits before a Softmax; several
        (``["a", "b"]`` or ``"a,b"``) are stacked.
    check : bool, optional
        Compare the network with onnxruntime at random points.
    domain : object with ``sample(rng, count)``, optional
        Samples the points of the comparison.
    time_limit : float, optional
        Seconds.
    memory_limit : int or str, optional
        Bytes; by default half of the machine's memory.
    fixed : mapping of str to array_like, optional
        Values of inputs by name, rounded to their types; a single number is repeated.  The other
        inputs are joined, in the order of the model, with a warning if there are several.

    Returns
    -------
    Network
        A function of the flattened input (row-major, a free batch dimension set to one) with
        flattened outputs.  Weights are the stored ones, exactly, in float64.

    Raises
    ------
    ImportRefused
        If the file cannot be read, an operator is not supported, input or output are not unique,
        the results of onnxruntime differ, or the model exceeds the memory or time limit.
    """
    instance(path, (str, os.PathLike), "the path", ImportRefused, "give the path of an ONNX file")
    with spending(limits(time_limit, memory_limit)):
        return _network(opened(path), output, check, domain, fixed)


@with_one_blas_thread
def from_model(
    model: onnx.ModelProto,
    output: Output = None,
    check: bool = True,
    domain: Sampler | None = None,
    name: str | None = None,
    fixed: Fixed | None = None,
) -> Network:
    """Import an ONNX model in memory.

    Parameters
    ----------
    model : onnx.ModelProto
    output, check, domain
        As for `load`.
    name : str, optional
        Name of the network; by default the name of the graph.
    fixed : mapping of str to array_like, optional
        As for `load`.

    Returns
    -------
    Network

    Raises
    ------
    ImportRefused
        As for `load`.
    """
    instance(model, onnx.ModelProto, "the model", ImportRefused, "give what onnx.load returns")
    with spending(limits()):
        return _network(opened(model, name), output, check, domain, fixed)


def _network(
    opened: Opened, output: Output, check: bool, domain: Sampler | None, fixed: Fixed | None
) -> Network:
    remedy = "give the name of a tensor or node, or several, or leave it out"
    instance(output, (str, list, tuple, NoneType), "output", ImportRefused, remedy)
    model, name = opened
    graph = select_graph(model, output, fixed)
    report_choices(model, output, fixed)
    network = lower_graph(graph, name)
    if check:
        check_against_runtime(network, model, domain=domain, output=output, fixed=fixed)
    return network
