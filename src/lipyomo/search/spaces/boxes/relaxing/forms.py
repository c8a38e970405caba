"""Affine arithmetic: z and u as functions of x, v and of the errors of each unit before them.

With lines around the units of a layer and their tangents,

    h = slope z + middle +- away,        t = rate u + tilt z + drift +- spread,

the errors of outputs are written as variables e in [-1, 1], times `away`, and f, times `spread`.
z and u of the next layer are sums of x, v, e and f, in which errors can cancel.  The result is the
function that substitution back to the inputs (`relax.py`) finds.  It takes as many operations, but
in a few large arrays instead of many small ones, and rows that layers pass on are stored only once
(Comba and Stolfi: Affine arithmetic and its applications to computer graphics, SIBGRAPI 1993).

Rounding.  The rounding error of a form's sums is at most unit times the sizes of its terms.  This
noise is added up in absolute values, and becomes part of e and f behind each unit that is not
passed on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.multiples import is_power_of_two
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.structure.stage import Copies, Stage


class ErrorForm(NamedTuple):
    """A function ``scale (parts + constant) +- |scale| noise`` on N boxes.

    Attributes
    ----------
    parts : tuple of ndarray, shapes (d + m, N)
        Coefficients of x and of all e so far; for u those of v and f as well.  The last axis is
        that of boxes, as there are few coefficients but many boxes.
    constant, noise : ndarray, shape (N,)
    errors, size : ndarray, shape (N,)
        Sums of the absolute values of the terms of e and f, and of all terms.
    scale : float
        A power of two.
    """

    parts: tuple[FloatArray, ...]
    constant: FloatArray
    noise: FloatArray
    errors: FloatArray
    size: FloatArray
    scale: float = 1.0


class ErrorForms(NamedTuple):
    """The forms of a layer's z, and of its u unless directions are zero.

    Attributes
    ----------
    z, u : list of ErrorForm
    variables : int
        The number of variables e, and of f.
    """

    z: list[ErrorForm]
    u: list[ErrorForm]
    variables: int


def affine(forms: Sequence[ErrorForm], inputs: Inputs, unit: float) -> Affine:
    """Turn forms into functions of x and v alone, by bounding e and f."""
    scale = np.array([form.scale for form in forms])
    radius, constant, size = (
        np.stack(parts, axis=1) * share
        for parts, share in (
            ([form.errors + form.noise for form in forms], np.abs(scale)),
            ([form.constant for form in forms], scale),
            ([form.size for form in forms], np.abs(scale)),
        )
    )
    x, *v = (
        np.stack([form.parts[k][: signal.size.shape[1]].T for form in forms], axis=1)
        * scale[:, None]
        for k, signal in zip(range(len(forms[0].parts)), (inputs.x, inputs.v), strict=False)
    )
    return Affine(x, v[0] if v else None, constant, radius + unit * (size + radius))


def first_forms(stage: Stage, layer: Relaxed, inputs: Inputs, still: bool) -> ErrorForms:
    """Return the forms of the first layer; without u if directions are zero (`still`)."""
    x, v, _ = inputs
    rows, bias = np.tile(stage.weight[:, :, None], len(x.middle)), stage.bias[:, None]
    z = _forms((rows,), bias + 0.0 * x.middle[:, 0], layer.pre.radius.T, inputs)
    if still:
        return ErrorForms(z, [], 0)
    along, off = np.tile(stage.along[:, :, None], len(v.middle)), layer.pre_tangent.radius.T
    none = np.zeros((*rows.shape[:2], along.shape[2]))
    return ErrorForms(z, _forms((none, along), np.zeros_like(off), off, inputs), 0)


def _forms(
    parts: Sequence[FloatArray], constant: FloatArray, noise: FloatArray, inputs: Inputs
) -> list[ErrorForm]:
    """Return forms with parts (n, d + m, N), constants and noise (n, N)."""
    numbers = range(len(constant))
    return [_form([rows[k] for rows in parts], constant[k], noise[k], inputs) for k in numbers]


def _form(
    parts: Sequence[FloatArray], constant: FloatArray, noise: FloatArray, inputs: Inputs
) -> ErrorForm:
    """Return one form with parts (d + m, N) and numbers (N,), small enough for the cache."""
    errors: FloatArray = np.zeros(1)
    size = np.abs(constant)
    for rows, signal in zip(parts, (inputs.x, inputs.v), strict=False):
        d = signal.size.shape[1]
        sizes = np.abs(rows)
        more = np.ones(len(rows) - d) @ sizes[d:]
        errors = errors + more
        size = size + more + (sizes[:d] * signal.size.T).sum(axis=0)
    return ErrorForm(tuple(parts), constant, noise, np.broadcast_to(errors, size.shape), size)


class _Sums:
    """Outputs of a layer while they are added up: ``parts + constant +- off`` on N boxes.

    Parameters
    ----------
    constants, off : ndarray, shape (k, N)
        The parts of the lines that are not multiples of forms.
    widths : sequence of int
        The number of columns of each part.
    """

    def __init__(self, constants: FloatArray, off: FloatArray, widths: Sequence[int]) -> None:
        k, boxes = constants.shape
        self.parts = [np.empty((k, width, boxes)) for width in widths]
        self._begun = np.zeros((len(widths), k), dtype=bool)
        self.constant, self.off, self.size = constants.copy(), off.copy(), np.abs(constants)

    def add(self, k: int, slope: FloatArray, form: ErrorForm, bias: float) -> None:
        """Add multiples (N,) of a form minus its bias to an output."""
        slope = slope * form.scale
        for begun, into, rows in zip(self._begun, self.parts, form.parts, strict=False):
            if begun[k]:
                into[k, : len(rows)] += slope * rows
                continue
            np.multiply(slope, rows, out=into[k, : len(rows)])
            into[k, len(rows) :] = 0.0
            begun[k] = True
        steep = np.abs(slope)
        self.constant[k] += slope * (form.constant - bias / form.scale)
        self.off[k] += steep * form.noise
        self.size[k] += steep * (form.size + abs(bias / form.scale))

    def turned(
        self, weight: FloatArray, passed: Sequence[bool], inputs: Inputs, unit: float
    ) -> list[ErrorForm]:
        """Return rows of these outputs, with a variable for each error, or noise if passed on.

        The last columns of the last part belong to these errors.  A row that is one output times a
        power of two shares its arrays.
        """
        bent, noise = 0, np.where(np.array(passed, dtype=bool)[:, None], self.off, 0.0)
        column = self.parts[-1].shape[1] - sum(not one for one in passed)
        for k, one in enumerate(passed):
            if not one:
                self.parts[-1][k, column + bent] = self.off[k]
                bent += 1
        noise = noise + unit * (self.size + self.off)
        found: dict[int, ErrorForm] = {}
        outputs: dict[int, ErrorForm] = {}
        for row, shares in enumerate(weight):
            places = np.flatnonzero(shares).tolist()
            if len(places) == 1 and is_power_of_two(float(shares[places[0]])):
                k = places[0]
                if k not in outputs:
                    own = [rows[k] for rows in self.parts]
                    outputs[k] = _form(own, self.constant[k], noise[k], inputs)
                found[row] = outputs[k]._replace(scale=float(shares[k]))
        rest = [row for row in range(len(weight)) if row not in found]
        sums = weight[rest]
        parts = [
            (sums @ rows.reshape(len(rows), math.prod(rows.shape[1:]))).reshape(
                len(sums), *rows.shape[1:]
            )
            for rows in self.parts
        ]
        forms = _forms(parts, sums @ self.constant, np.abs(sums) @ noise, inputs)
        found |= dict(zip(rest, forms, strict=True))
        return [found[row] for row in range(len(weight))]


def next_forms(
    stage: Stage, before: tuple[Stage, Relaxed], forms: ErrorForms, inputs: Inputs, unit: float
) -> ErrorForms:
    """Return the forms of a layer, given those of the layer before and its lines."""
    weight, bias, off = stage.weight, stage.bias, stage.off
    if stage.copies is not None:
        fresh = stage.copies.fresh
        weight, bias, off = weight[fresh], bias[fresh], off[fresh]
    own, layer = before
    used = np.flatnonzero(weight.any(axis=0))
    weight, passed = np.ascontiguousarray(weight[:, used]), passed_outputs(own)[used].tolist()
    count = forms.variables + passed.count(False)
    x, v, _ = inputs
    wide = x.size.shape[1] + forms.variables, x.size.shape[1] + count, v.size.shape[1] + count
    assert layer.value is not None
    slope, middle, away = (part.T for part in layer.value)
    values = _Sums(middle[used], away[used], wide[1:2])
    branches = _branches(own, used.tolist())
    for k, branch, row in branches:
        values.add(k, slope[branch], forms.z[row], float(own.bias[row]))
    z = values.turned(weight, passed, inputs, unit)
    rounding = unit * (np.abs(bias) + off)
    z = [
        form._replace(
            constant=form.constant + b / form.scale, noise=form.noise + r / abs(form.scale)
        )
        for form, b, r in zip(z, bias.tolist(), rounding.tolist(), strict=True)
    ]
    u: list[ErrorForm] = []
    if forms.u:
        assert layer.change is not None
        rate, tilt, drift, spread = (part.T for part in layer.change)
        tangents = _Sums(drift[used], spread[used], (wide[0], wide[2]))
        for k, branch, row in branches:
            tangents.add(k, rate[branch], forms.u[row], 0.0)
            if not passed[k]:
                tangents.add(k, tilt[branch], forms.z[row], float(own.bias[row]))
        u = tangents.turned(weight, passed, inputs, unit)
    if stage.copies is not None:
        z, u = _copied(z, forms.z, stage.copies), _copied(u, forms.u, stage.copies)
    return ErrorForms(z, u, count)


def _branches(stage: Stage, used: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the place among the used outputs, the index and the row of each of their branches."""
    products = stage.products
    if products is None:
        return [(k, output, output) for k, output in enumerate(used)]
    found = []
    for k, output in enumerate(used):
        some = np.flatnonzero(products.output == output).tolist()
        found += [(k, branch, int(products.own[branch])) for branch in some]
    return found


def _copied(own: list[ErrorForm], other: list[ErrorForm], copies: Copies) -> list[ErrorForm]:
    """Return multiples of these forms and of those of the layer before, as copies say."""
    both = own + other
    if not both:
        return []
    return [
        both[source]._replace(scale=both[source].scale * scale)
        for source, scale in zip(copies.source.tolist(), copies.scale.tolist(), strict=True)
    ]
