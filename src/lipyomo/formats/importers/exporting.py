"""Export of modules by PyTorch's ONNX exporters, with clear errors for unsupported ones.

The TorchScript exporter is tried first: it takes a hundredth of the time of the other one, needs no
further package, and with the options below it folds no constants, so that weights are unchanged.
If it fails, the exporter based on ``torch.export`` is used.
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
"""Exceptions raised by modules and exporters."""

WITHOUT_CHOICES = (
    "write choices as torch.where, torch.clamp or activations, which act on every entry; or export "
    "the module with torch.onnx.export and load the file"
)


def uncompiled(module: Module) -> Module:
    """Return the original of a module compiled by ``torch.compile``; others unchanged."""
    inner = getattr(module, "_orig_mod", None)
    if type(module).__name__ == "OptimizedModule" and inner is not None:
        return uncompiled(inner)
    return module


def _writable(module: Module) -> Module:
    """Return an equivalent module that the exporters support."""
    from torch import nn

    module = uncompiled(module)
    if isinstance(module, nn.Threshold) and module.value == module.threshold:
        return nn.Hardtanh(module.threshold, math.inf)
    return module


def still_copy(module: Module) -> Module:
    """Return an exportable copy in evaluation mode, without compiled parts.

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
        parent._compiled_call_impl = None  # of Module.compile(), which works in place
        for name, child in list(parent.named_children()):
            plain = _writable(child)
            if plain is not child:
                setattr(parent, name, plain)
        for name, value in list(vars(parent).items()):  # tracing refuses compiled functions
            original = getattr(value, "_torchdynamo_orig_callable", None)
            if original is not None:
                setattr(parent, name, original)
    return _writable(still)


def eagerly() -> Any:
    """Return a context in which functions compiled by ``torch.compile`` run uncompiled."""
    import torch

    compiler = "torch._dynamo" in sys.modules  # without it nothing is compiled
    stance = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if compiler and stance is not None else nullcontext()


@contextmanager
def _silence() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the exporters' warnings instead of printing them.

    The TorchScript exporter always prints graphs that it does not support to stdout.
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
    """Export a module as an ONNX model for a batch of one.

    Parameters
    ----------
    module : torch.nn.Module
        A result of `still_copy`.
    example : torch.Tensor

    Raises
    ------
    ImportRefused
        If the module fails on the example, neither exporter supports it, or its control flow
        depends on its input.
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
        except FAILURES as error:  # the other exporter may succeed
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
    """Refuse a module that reads entries of a tensor in Python; reading shapes is allowed.

    A trace records only the path of the example.  It warns whenever a tensor becomes a Python
    value, including shapes, which are the same for all inputs.  A run with fake tensors, which have
    no entries, distinguishes the two.
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
    """Return the innermost line of the module's own code with its location, and the line alone."""
    import torch

    library, here = str(Path(torch.__file__).parent), __file__
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(library) and f.filename != here]
    if not own:
        return _reason(error), ""
    line = (own[-1].line or "").strip()
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno} (`{line}`)", line


def _reason(error: BaseException) -> str:
    """Return the message of the original error, in one line without colours."""
    while error.__cause__ is not None:
        error = error.__cause__
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip() or type(error).__name__
    return words.splitlines()[0].split("Please feel free")[0].strip()[:200]
