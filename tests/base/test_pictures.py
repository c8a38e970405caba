"""The style of pictures: labels that do not collide, formulas, files that are the same again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lipyomo.base.pictures import (
    Label,
    in_words,
    label_ends,
    mathematics,
    new_figure,
    plain_name,
    save_figure,
    window,
)

pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_labels_keep_their_order_and_do_not_collide(scale: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        values = np.concatenate([rng.uniform(1, 100, 4), 50 + rng.uniform(0, 0.1, 4)])
        figure = new_figure(6, 4)
        axes = figure.subplots()
        axes.set_yscale(scale)
        axes.set_ylim(0.9, 110)
        figure.draw_without_rendering()
        label_ends(axes, 1.0, [Label(value, f"{value:.6f}", "black") for value in values])
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
        assert [text.get_text() for text in axes.texts] == [f"{v:.6f}" for v in sorted(values)]
        assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))


def test_a_label_with_room_stays_at_its_value() -> None:
    figure = new_figure(6, 4)
    axes = figure.subplots()
    axes.set_ylim(0, 10)
    label_ends(axes, 1.0, [Label(2.0, "low", "black"), Label(8.0, "high", "black")])
    assert [text.xyann[1] for text in axes.texts] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(
    ("norms", "form"),
    [
        ("linf -> |.|", "png"),
        ("l1 -> cross(3)", "pdf"),
        ("l2 -> linear", "svg"),
        ("linf -> l2, wrt 0, 3", "pdf"),
        ("linf -> a_b{}$ 1", "svg"),
    ],
)
def test_formulas_can_be_drawn(norms: str, form: str, tmp_path: Path) -> None:
    figure = new_figure(3, 2)
    figure.subplots().set_title(
        f"{plain_name('net$1_a')}, {mathematics(norms)}, {in_words('R^12')}"
    )
    save_figure(figure, tmp_path / f"picture.{form}")


def test_powers_are_formulas() -> None:
    assert in_words("box [0, 1]^10") == "box $[0, 1]^{10}$"
    assert in_words("all of R^3") == r"all of $\mathbb{R}^{3}$"
    assert mathematics("linf -> cross(2)") == r"$\ell_\infty \to \times_{2}$"


@pytest.mark.parametrize("form", ["pdf", "svg"])
def test_equal_pictures_are_equal_files_of_lines_and_text(form: str, tmp_path: Path) -> None:
    written = []
    for turn in range(2):
        figure = new_figure(3, 2)
        figure.subplots().plot([0, 1], [0, 1])
        save_figure(figure, tmp_path / f"{turn}.{form}")
        written.append((tmp_path / f"{turn}.{form}").read_bytes())
    assert written[0] == written[1]
    assert b"/Subtype /Image" not in written[0]
    assert b"<image" not in written[0]


@pytest.mark.parametrize(("first", "last"), [(0.0, 0.0), (1.0, 1.0), (0.9, 2.4), (0.0, 600.0)])
def test_an_axis_of_seconds_begins_with_what_is_known(first: float, last: float) -> None:
    low, high = window(first, last)
    assert 0 <= low <= first
    assert high > last
    assert first - low <= 0.15 * (high - low)
