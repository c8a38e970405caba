"""Pictures of maps, and the page whose cells show their numbers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import networks
from lipyomo import Box, LipschitzProblem, Network, map_cells
from lipyomo.analyses.maps import CellMap, grid, plot_map, refine_cells
from lipyomo.analyses.maps.plot import draw_panel, draw_witness, plane_of
from lipyomo.base.errors import LipyomoError
from lipyomo.base.pictures import new_figure


@pytest.fixture(scope="module")
def found() -> CellMap:
    """A small map."""
    return map_cells(
        LipschitzProblem(networks.random_network(2, (2, 6, 5, 1)), Box(-1, 1, 2)), (5, 4)
    )


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_maps_are_drawn(ending: str, found: CellMap, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    path = tmp_path / f"map.{ending}"
    plot_map(found, path)
    first = path.read_bytes()
    plot_map(found, path)  # one's own picture is replaced
    assert path.read_bytes() == first


def test_refined_maps_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    problem = LipschitzProblem(networks.random_network(3, (2, 5, 4, 1)), Box(-1, 1, 2))
    refined = refine_cells(problem, (2, 2), 0.1)
    plot_map(refined, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_small_constants_have_colours_as_well() -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    first, *others, last = networks.random_network(2, (2, 6, 5, 1)).layers
    small = Network([first, *others, last.with_map(1e-9 * last.dense_weight, last.bias)])
    tiny = map_cells(LipschitzProblem(small, Box(-1, 1, 2)), (5, 4))
    axes = new_figure(4.0, 4.0).subplots()
    draw_panel(axes, tiny, plane_of(tiny.cells), tiny.constant_upper, "constant")
    assert axes.collections[0].get_clim() == (0.0, tiny.constant_upper.max())


def test_maps_of_other_than_two_axes_are_refused(tmp_path: Path) -> None:
    network = networks.random_network(4, (3, 4, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 3))
    for cells in (grid(-1.0, 1.0, 3, dimension=3), grid(-1.0, 1.0, (2, 2, 2))):
        with pytest.raises(LipyomoError, match="two axes"):
            plot_map(map_cells(problem, cells), tmp_path / "map.html")
    plot_map(map_cells(problem, grid(-1.0, 1.0, (2, 2), dimension=3)), tmp_path / "map.html")


def test_the_page_holds_all_numbers_and_loads_nothing(found: CellMap, tmp_path: Path) -> None:
    plot_map(found, tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text()
    held = json.loads(re.search(r"const data = (.*);\n", page)[1])
    assert len(held["cells"]) == len(found)
    for cell, low, high in zip(
        held["cells"], found.constant_lower, found.constant_upper, strict=True
    ):
        assert float(cell[4]) <= low
        assert float(cell[5]) >= high
    assert not re.search(r"(src|href)\s*=|https?:|@import|fetch\(", page)


def test_someone_elses_page_is_left_alone(found: CellMap, tmp_path: Path) -> None:
    path = tmp_path / "map.html"
    path.write_text("<!doctype html>\n<p>mine")
    with pytest.raises(LipyomoError, match="not replaced"):
        plot_map(found, path)


def test_a_cell_shows_its_numbers_under_the_pointer(found: CellMap, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    plot_map(found, tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text()
    # the pointer moves to the middle of cell 7, as an event says
    x, y = (found.cells.middle[7] + 1.0) / 2.0
    script = (
        "<script>const spot = map.getBoundingClientRect();"
        "map.dispatchEvent(new MouseEvent('mousemove', {"
        f"clientX: spot.left + {x} * spot.width, clientY: spot.top + {1 - y} * spot.height}}));"
        "const pixel = map.getContext('2d').getImageData("
        f"Math.round({x} * map.width), Math.round({1 - y} * map.height), 1, 1).data;"
        "document.body.dataset.pixel = Array.from(pixel).join(',');</script></body>"
    )
    (tmp_path / "moved.html").write_text(page.replace("</body>", script))
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "moved.html").as_uri()]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False).stdout
    if "</html>" not in shown:
        pytest.skip("Chromium does not run here")
    said = re.search(r'id="cell">([^<]*)<', shown)[1]
    assert said.startswith("cell 7: exact")
    ends = [float(end) for end in re.search(r"constant in \[([^,]*), ([^\]]*)\]", said).groups()]
    assert ends[0] <= found.constant_lower[7] <= found.constant_upper[7] <= ends[1]
    assert ends == pytest.approx([found.constant_lower[7]] * 2, rel=1e-6)
    assert re.search(r'data-pixel="\d+,\d+,\d+,255"', shown)
    assert np.isfinite(ends).all()


@pytest.mark.parametrize("corner", [(-1.0, -1.0), (1.0, 1.0)])
def test_the_value_of_the_witness_is_written_inside_its_panel(corner: tuple[float, float]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    bend = [[corner[0], corner[1]]]  # steep only where the unit is positive: in this corner
    network = Network.from_arrays([bend, [[1.0]]], [[-1.9], [0.0]])
    problem = LipschitzProblem(network, Box(-1.0, 1.0, 2))
    found = map_cells(problem, (16, 16))
    figure = new_figure(5.0, 4.0)
    axes = figure.add_subplot()
    axes.set_xlim(-1.0, 1.0)
    axes.set_ylim(-1.0, 1.0)
    draw_witness(axes, found, plane_of(found.cells))
    figure.canvas.draw()
    (label,) = axes.texts
    box, panel = label.get_window_extent(), axes.get_window_extent()
    assert panel.x0 < box.x0 < box.x1 < panel.x1
    assert panel.y0 < box.y0 < box.y1 < panel.y1
