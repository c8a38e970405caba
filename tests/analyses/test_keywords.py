"""Questions take fields of settings as keywords, which they know, list, and refuse by name."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import lipyomo
from lipyomo.analyses.certification.monotone import MonotoneKeywords, MonotoneSettings
from lipyomo.analyses.certification.point import PointKeywords, PointSettings
from lipyomo.analyses.maps.run import MapKeywords, MapSettings
from lipyomo.analyses.quick import LipschitzKeywords
from lipyomo.base.errors import LipyomoError
from lipyomo.problems.problem import ProblemKeywords
from lipyomo.problems.settings import Settings, SettingsKeywords, Work, WorkKeywords

TABLES = {
    "WorkKeywords": WorkKeywords,
    "SettingsKeywords": SettingsKeywords,
    "MapKeywords": MapKeywords,
    "PointKeywords": PointKeywords,
    "MonotoneKeywords": MonotoneKeywords,
    "LipschitzKeywords": LipschitzKeywords,
}
PARAMETERS = {
    name: list(inspect.signature(thing).parameters.values())
    for name in lipyomo.__all__
    if inspect.isfunction(thing := getattr(lipyomo, name))
}
OPEN = {name: own[-1].annotation for name, own in PARAMETERS.items() if own[-1].kind.value == 4}
"""Functions that take keywords by ``**``, with their annotation."""
NETWORK = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
BOX = lipyomo.Box(-1, 3, 1)


@pytest.mark.parametrize(
    ("table", "kind", "apart"),
    [
        (WorkKeywords, Work, set()),
        (SettingsKeywords, Settings, {"threads"}),
        (MapKeywords, MapSettings, set()),
        (PointKeywords, PointSettings, {"radius"}),
        (MonotoneKeywords, MonotoneSettings, set()),
    ],
)
def test_every_field_is_a_keyword(table: type, kind: type, apart: set[str]) -> None:
    assert {each.name for each in fields(kind)} ^ table.__annotations__.keys() == apart


def test_keywords_of_problems_are_its_parameters() -> None:
    named = inspect.signature(lipyomo.LipschitzProblem).parameters.keys()
    others = {"network", "domain", "norm", "output_norm", "input_norm"}
    assert named - ProblemKeywords.__annotations__.keys() == others


def test_questions_take_keywords_of_tables() -> None:
    questions = {name for name, table in OPEN.items() if table.startswith("Unpack[")}
    assert OPEN.keys() - questions == {"activation", "add_network"}
    assert {"solve", "lipschitz", "certify_robustness", "map_cells", "sweep"} < questions
    assert not [name for name, own in PARAMETERS.items() if len(own) > 13]


@pytest.mark.parametrize("name", sorted(OPEN.keys() - {"activation", "add_network"}))
def test_help_lists_the_keywords(name: str) -> None:
    table = TABLES[OPEN[name].removeprefix("Unpack[").removesuffix("]")]
    listed = " ".join(getattr(lipyomo, name).__doc__.split())
    offered = [each for each in table.__annotations__ if each != "threads"]
    assert f"Keywords: {', '.join(offered)}." in listed


def test_unknown_keywords_are_type_errors_with_the_nearest_name() -> None:
    # type checkers know the keywords: without the comments mypy refuses these calls, too
    problem = lipyomo.LipschitzProblem(NETWORK, BOX)
    with pytest.raises(TypeError, match="did you mean time_limit"):
        lipyomo.solve(problem, timelimit=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean functional"):
        lipyomo.value_range(NETWORK, BOX, functionl=[1.0])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean margin"):
        lipyomo.lipschitz(NETWORK, (0, 1), margn=0)  # type: ignore[call-arg]
    with pytest.raises(LipyomoError, match=r"no keyword keywords"):
        lipyomo.lipschitz(NETWORK, (0, 1), keywords=3)  # type: ignore[call-arg]
    with pytest.raises(LipyomoError, match=r"no keyword thread\.(?!.*threads)"):
        lipyomo.lipschitz(NETWORK, (0, 1), thread=3)  # type: ignore[call-arg]
    with pytest.raises(LipyomoError, match="did you mean workers"):
        lipyomo.map_cells(problem, 3, worker=2)  # type: ignore[call-arg]
    with pytest.raises(LipyomoError, match="did you mean methods"):
        lipyomo.certify_robustness(NETWORK, [[0.0]], method=["bnb"])  # type: ignore[call-arg]


def test_keywords_are_those_of_settings() -> None:
    asked = {"norm": "l1", "functional": [2.0], "time_limit": "1m", "seed": 3}
    problem = lipyomo.LipschitzProblem(NETWORK, BOX, "l1", functional=[2.0])
    found = lipyomo.lipschitz(NETWORK, BOX, **asked)  # type: ignore[arg-type]
    assert found.upper == lipyomo.solve(problem, settings=Settings(60, seed=3)).upper
    assert found.lower == 4.0
