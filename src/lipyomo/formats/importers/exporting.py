"""PyTorch's own ONNX exporters, and what they mean where they refuse a module.

The TorchScript exporter comes first: it takes a hundredth of the time of the other one, needs no
further package, and with the options below it folds nothing, so that weights stay as they are.
What it cannot write goes through the exporter that is built on ``torch.export``.
"""

from __future__ import annotations

import copy
import io
import logging
import math
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.extras import installed
from lipyomo.formats.onnx.export import COMPLETE_OPSET
from lipyomo.formats.onnx.graph import EVALUATOR_ERRORS, first_line

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

FAILURES = (*EVALUATOR_ERRORS, AssertionError, ImportError)
"""What modules and exporters raise."""

WITHOUT_CHOICES = (
    "write choices as torch.where, torch.clamp or activations, which act on every entry; or export "
    "the module with torch.onnx.export and load the file"
)


def uncompiled(module: Module) -> Module:
    """What ``torch.compile`` was given, in place of what it made: the same function."""
    inner = getattr(module, "_orig_mod", None)
    if type(module).__name__ == "OptimizedModule" and inner is not None:
        return uncompiled(inner)
    return module


def _writable(module: Module) -> Module:
    """The same function as exporters can write it."""
    from torch import nn

    module = uncompiled(module)
    if isinstance(module, nn.Threshold) and module.value == module.threshold:
        return nn.Hardtanh(module.threshold, math.inf)
    return module


def still_copy(module: Module) -> Module:
    """A copy in evaluation mode, as exporters can write it: no part of it is compiled.

    Raises
    ------
    ImportRefused
        If the module cannot be copied.
    """
    try:
        still = copy.deepcopy(module).eval()
    except (RuntimeError, TypeError) as error:
        raise ImportRefused(
            f"the module cannot be copied ({first_line(error)})",
            remedy="export it with torch.onnx.export and load the file",
        ) from None
    for parent in list(still.modules()):
        parent._compiled_call_impl = None  # of Module.compile(), which is in place
        for name, child in list(parent.named_children()):
            plain = _writable(child)
            if plain is not child:
                setattr(parent, name, plain)
        for name, value in list(vars(parent).items()):  # functions: tracing refuses compiled ones
            original = getattr(value, "_torchdynamo_orig_callable", None)
            if original is not None:
                setattr(parent, name, original)
    return _writable(still)


def eagerly() -> Any:
    """A context in which functions that ``torch.compile`` made run as they were written."""
    import torch

    compiler = "torch._dynamo" in sys.modules  # without it nothing is compiled
    stance = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if compiler and stance is not None else nullcontext()


@contextmanager
def _silence() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the exporters' notes instead of printing them.

    The TorchScript exporter prints a graph that it cannot write on stdout, whatever it is told.
    """
    import torch

    logger = logging.getLogger("torch")
    level = logger.level
    printer = getattr(torch._C, "_jit_onnx_log", None)
    logger.setLevel(logging.CRITICAL)
    try:
        if printer is not None:
            torch._C._jit_onnx_log = lambda *words: None
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            yield notes
    finally:
        logger.setLevel(level)
        if printer is not None:
            torch._C._jit_onnx_log = printer


def exported(module: Module, example: Tensor) -> onnx.ModelProto:
    """The module as an ONNX model for a batch of one.

    Parameters
    ----------
    module : torch.nn.Module
        As `still_copy` makes it.
    example : torch.Tensor

    Raises
    ------
    ImportRefused
        If the module does not take the example, neither exporter can write it, or it makes choices
        that depend on its input.
    """
    import torch

    target = io.BytesIO()
    shape = tuple(example.shape[1:])
    with _silence() as notes, torch.no_grad():
        try:
            module(example)
        except FAILURES as error:
            raise ImportRefused(
                f"the module does not take one input of shape {shape} ({_reason(error)})",
                remedy="check input_shape, which is the shape of one input, without the batch",
            ) from None
        try:
            torch.onnx.export(
                module,
                (example,),
                target,
                dynamo=False,
                opset_version=COMPLETE_OPSET,
                do_constant_folding=False,  # nor any other rounding of weights: no BatchNorm is
                training=torch.onnx.TrainingMode.PRESERVE,  # fused into the layer before it
            )
        except FAILURES as error:  # the other exporter may do better
            if not installed("onnxscript"):
                raise ImportRefused(
                    f"PyTorch's older exporter cannot write the module ({_reason(error)})",
                    remedy="install onnxscript, which PyTorch's newer exporter needs; "
                    f"{WITHOUT_CHOICES}",
                ) from None
        else:
            if any(issubclass(note.category, torch.jit.TracerWarning) for note in notes):
                _check_choices(module, example)
            return onnx.load_from_string(target.getvalue())
        try:
            program = torch.onnx.export(
                module, (example,), dynamo=True, optimize=False, verbose=False
            )
        except FAILURES as error:
            _check_choices(module, example)
            raise ImportRefused(
                f"PyTorch cannot export the module ({_reason(error)})", remedy=WITHOUT_CHOICES
            ) from None
    model: onnx.ModelProto = program.model_proto
    return model


def _check_choices(module: Module, example: Tensor) -> None:
    """Refuse a module that reads the numbers of a tensor; shapes it may read.

    A trace takes one way through a module, the one that the example goes.  It warns wherever a
    tensor becomes a Python value, those that hold a shape included, which are the same for all
    inputs.  A run without numbers tells both apart.
    """
    from torch._subclasses import fake_tensor as fake

    try:
        with fake.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            copy.deepcopy(module)(mode.from_tensor(example))
    except FAILURES as error:
        place, line = _place(error)
        if line.startswith("assert"):
            raise ImportRefused(
                f"the module asserts something of the numbers that it is given: {place}",
                remedy="leave the assertion out: a network is taken for a function of all inputs",
            ) from None
        known = fake.DataDependentOutputException, fake.DynamicOutputShapeException
        trouble = "" if isinstance(error, known) else f" ({_reason(error)})"
        raise ImportRefused(
            "the module makes choices that depend on its input, or on numbers in it: "
            f"{place}{trouble}",
            remedy=WITHOUT_CHOICES,
        ) from None


def _place(error: Exception) -> tuple[str, str]:
    """The innermost line of the module's own code, with where it is; and the line alone."""
    import torch

    library, here = str(Path(torch.__file__).parent), __file__
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(library) and f.filename != here]
    if not own:
        return _reason(error), ""
    line = (own[-1].line or "").strip()
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno} (`{line}`)", line


def _reason(error: BaseException) -> str:
    """What was wrong first, in one line without colours."""
    while error.__cause__ is not None:
        error = error.__cause__
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip() or type(error).__name__
    return words.splitlines()[0].split("Please feel free")[0].strip()[:200]
