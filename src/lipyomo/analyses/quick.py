"""`lipschitz`: one call from a file or a model to its Lipschitz constant, for notebooks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.questions.several import solve_largest
from lipyomo.base.arguments import brief, instance, one_of, real_numbers
from lipyomo.base.errors import ProblemError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box, Domain, ball
from lipyomo.problems.domains.vnnlib import read_vnnlib
from lipyomo.problems.norms import OutputNorm
from lipyomo.problems.problem import LipschitzProblem, ProblemKeywords
from lipyomo.problems.result import Result
from lipyomo.problems.settings import SettingsKeywords, takes

if TYPE_CHECKING:
    from lipyomo.formats.onnx.arrange import Fixed, Output

Side: TypeAlias = "npt.ArrayLike"
"""A number for all inputs, or one per input, in the network's shape or flattened."""


class LipschitzKeywords(ProblemKeywords, SettingsKeywords, total=False):
    """Keywords that `lipschitz` passes on to the problem and to `solve`."""


@takes(LipschitzKeywords)
def lipschitz(
    network: Any,
    box: Sequence[Side] | Domain | None = None,
    norm: str = "linf",
    output_norm: str | OutputNorm | None = None,
    *,
    center: Side | None = None,
    radius: float | None = None,
    clip: tuple[Side, Side] | None = None,
    vnnlib: str | os.PathLike[str] | None = None,
    output: Output = None,
    fixed: Fixed | None = None,
    method: str = "auto",
    budget: Literal["fast"] | None = None,
    **keywords: Unpack[LipschitzKeywords],
) -> Result:
    """Compute the local Lipschitz constant of a network given as a file, a model or a Network.

    Parameters
    ----------
    network : str, path-like, Network, torch.nn.Module or scikit-learn estimator
        A path is that of an ONNX file, which is compared with onnxruntime.  A module that does not
        start with a Linear layer takes its input shape from the box or the center.
    box : (low, high) or Domain, optional
        The domain of the inputs; a number applies to all of them.
    norm : {'linf', 'l1', 'l2'}, optional
        Norm of the inputs.
    output_norm : str or OutputNorm, optional
        ``l1``, ``l2``, ``linf``, ``cross`` or ``cross(i)``; by default the scalar itself for one
        output, else linf.
    center, radius : array_like and float, optional
        A ball in the norm of the inputs, instead of a box.
    clip : (low, high), optional
        A box with which the ball is intersected.
    vnnlib : str or path-like, optional
        A VNN-LIB file of conditions on the inputs, instead of a box.
    output, fixed : optional
        For an ONNX file; see `load`.
    method : str, optional
        ``auto`` takes an exact one.
    budget : {'fast'}, optional
        The best upper bound within a twentieth of a second, warm started from the last call on a
        network of the same shape: method ``fast``, for networks in training.
    **keywords
        Parameters of `LipschitzProblem`, such as ``margin=3`` or ``wrt=[0, 1]``, and fields of
        `Settings`, such as ``time_limit=10``.

    Returns
    -------
    Result

    Raises
    ------
    LipyomoError
        If the network cannot be read, or not exactly one domain is given.

    Examples
    --------
    >>> import lipyomo
    >>> lipyomo.lipschitz("models/iris.onnx", box=(4, 6), time_limit=10).is_exact
    True
    """
    # the time limit includes reading the file and comparing it with onnxruntime
    settings: dict[str, Any] = {"started": time.monotonic(), **keywords}
    asked = {name: settings.pop(name) for name in ProblemKeywords.__annotations__.keys() & keywords}
    if budget is not None:
        one_of(budget, ("fast",), "budget", ProblemError)
        if method not in ("auto", "fast"):
            raise ProblemError("budget chooses the method.  Remedy: give one of method and budget")
        method, settings = "fast", {"attain": False, **settings}
    given = {"box": box, "center": center, "vnnlib": vnnlib}
    known = [name for name, value in given.items() if value is not None]
    if len(known) != 1:
        raise ProblemError(
            f"{' and '.join(known) or 'no domain'} given.  Remedy: give one of box=(0, 1), "
            "center= with radius=, or vnnlib=FILE"
        )
    if (radius is not None or clip is not None) and center is None:
        raise ProblemError("radius and clip are about a ball.  Remedy: give its center")
    path = isinstance(network, str | os.PathLike)
    check_file_options(path, output, fixed)
    read = network_of(network, _shape(box, center), output, fixed)
    if vnnlib is not None:
        domains = list(read_vnnlib(vnnlib).parts)
    elif center is not None:
        domains = [_ball(center, radius, clip, norm, read.input_dim)]
    else:
        domains = [box if isinstance(box, Domain) else Box(*_pair(box, "box"), read.input_dim)]
    problems = [LipschitzProblem(read, each, norm, output_norm, **asked) for each in domains]
    if path:
        from lipyomo.formats.onnx import check_against_runtime

        check_against_runtime(read, network, domain=domains[0], output=output, fixed=fixed)
    return solve_largest(problems, method, **settings)


class Given(NamedTuple):
    """A network, and its source.

    Attributes
    ----------
    network : Network
    onnx : (path, output, fixed) or None
        The ONNX file, and the arguments with which it was loaded.
    classes : sequence or None
        The classes of a scikit-learn classifier, in order.
    """

    network: Network
    onnx: tuple[Any, ...] | None
    classes: Any


def read_network(
    given: Any, inputs: Any, output: Output = None, fixed: Fixed | None = None
) -> Given:
    """Load the network of a path, a model or an estimator, for rows of inputs.

    Raises
    ------
    LipyomoError
        If it cannot be read, or is no network.
    """
    path = isinstance(given, str | os.PathLike)
    check_file_options(path, output, fixed)
    shape = () if isinstance(given, Network) or hasattr(inputs, "columns") else np.shape(inputs)[1:]
    network = network_of(given, shape if len(shape) > 1 else None, output, fixed)
    if not path:
        return Given(network, None, getattr(given, "classes_", None))
    from lipyomo.formats.onnx import check_against_runtime

    check_against_runtime(network, given, output=output, fixed=fixed)
    return Given(network, (given, output, fixed), None)


def check_file_options(path: bool, output: Output, fixed: Fixed | None) -> None:
    """Refuse options of ONNX files for a network that does not come from a file."""
    if not path and (output is not None or fixed is not None):
        raise ProblemError("output and fixed are about an ONNX file, and the network is none")


def network_of(
    given: Any,
    shape: tuple[int, ...] | None = None,
    output: Output = None,
    fixed: Fixed | None = None,
) -> Network:
    """Load the network of a path or a model, without comparing it with onnxruntime."""
    if isinstance(given, Network):
        return given
    if isinstance(given, str | os.PathLike):
        from lipyomo.formats.onnx import load

        return load(given, output=output, fixed=fixed, check=False)
    torch, sklearn = sys.modules.get("torch"), sys.modules.get("sklearn.base")
    if torch is not None and isinstance(given, torch.nn.Module):
        from lipyomo.formats.importers import from_torch

        return from_torch(given, input_shape=shape)
    if sklearn is not None and isinstance(given, sklearn.BaseEstimator):
        from lipyomo.formats.importers import from_sklearn

        return from_sklearn(given)
    raise ProblemError(
        f"the network is {brief(given)}.  Remedy: give the path of an ONNX file, a Network, a "
        "torch module or a scikit-learn estimator"
    )


def _ball(
    center: Side, radius: float | None, clip: tuple[Side, Side] | None, norm: str, size: int
) -> Domain:
    """Return the ball around a center in `size` inputs."""
    if radius is None:
        raise ProblemError("a ball needs a radius.  Remedy: give radius=")
    ends = None if clip is None else _pair(clip, "clip")
    at = np.broadcast_to(_flat(center), size) if np.size(center) == 1 else _flat(center)
    return ball(at, radius, norm, ends)


def _shape(box: Any, center: Any) -> tuple[int, ...] | None:
    """Return the shape of an input if the domain's has several axes, or None."""
    sides = list(box) if isinstance(box, Sequence | np.ndarray) else [center]
    shapes = [np.shape(side) for side in sides if np.ndim(side) > 1]
    return shapes[0] if shapes else None


def _pair(sides: Any, what: str) -> tuple[Any, Any]:
    """Return two sides, flattened."""
    remedy = f"give two, as in {what}=(0, 1)"
    instance(sides, (Sequence, np.ndarray), what, ProblemError, remedy)
    if len(sides) != 2:
        raise ProblemError(f"{what} has {len(sides)} sides.  Remedy: {remedy}")
    low, high = map(_flat, sides)
    return low, high


def _flat(side: Any) -> Any:
    """Return a side as a number, or as a flat array."""
    numbers = real_numbers(side, "the domain", ProblemError)
    return float(numbers) if numbers.ndim == 0 else numbers.reshape(-1)
