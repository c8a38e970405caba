"""The operator Einsum, for one or two tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.formats.onnx.lower.reductions import sum_of
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies


@multiplies("Einsum")
def einsum(call: Call) -> Value:
    """Each term of the sum is an entry or a product of two; products with constants are affine."""
    tensors = [call.tensor(position) for position in range(len(call.arguments))]
    letters, kept = _letters(call, [len(tensor.shape) for tensor in tensors])
    sizes: dict[str, int] = {}
    for own, tensor in zip(letters, tensors, strict=True):
        for letter, size in zip(own, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) not in (size, 1) and size != 1:
                raise ValueError(f"axes {letter} of {sizes[letter]} and of {size} entries")
            sizes[letter] = max(sizes[letter], size)
    summed = [letter for letter in sizes if letter not in kept]
    order = [*kept, *summed]
    grid = tuple(sizes[letter] for letter in order)
    terms = [
        tensor.take(_places(own, tensor.shape, order, grid))
        for own, tensor in zip(letters, tensors, strict=True)
    ]
    found = terms[0] if len(terms) == 1 else call.trace.times(*terms)
    shape = grid[: len(kept)]
    return sum_of(found.reshaped((int(np.prod(shape)), int(np.prod(grid[len(kept) :])))), shape)


def _letters(call: Call, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each tensor's axes, and of the result's."""
    equation = re.sub(r"\s", "", str(call.node.text("equation", "")))
    given, arrow, kept = equation.partition("->")
    letters = given.split(",")
    if "." in equation or len(letters) not in (1, 2):
        remedy = "write it as MatMul and Transpose, or by equations of one or two tensors"
        raise call.node.refuse(f"the equation {equation!r}", remedy)
    if not arrow:  # by default the letters that occur once, in alphabetical order
        every = "".join(letters)
        kept = "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    if [len(own) for own in letters] != list(ranks) or not set(kept) <= set("".join(letters)):
        raise ValueError(f"the equation {equation!r} for tensors with {list(ranks)} axes")
    return letters, kept


def _places(
    own: str, shape: tuple[int, ...], order: Sequence[str], grid: tuple[int, ...]
) -> IntArray:
    """Return the position in a tensor for each term; axes of length one are repeated."""
    places = np.arange(math.prod(shape)).reshape(shape)
    there = "".join(letter for letter in order if letter in own)
    view = np.einsum(f"{own}->{there}", places)
    lengths = iter(view.shape)
    return np.broadcast_to(
        view.reshape([next(lengths) if letter in own else 1 for letter in order]), grid
    )
