"""A few cases of everything that users touch, against the exact oracle."""

from __future__ import annotations

import pytest
from fuzz_users import USERS, case

from lipyomo import LipyomoError

SEEDS = range(6)


@pytest.mark.parametrize("name", [name for name in USERS if name != "files"])
def test_no_promise_is_broken(name: str) -> None:
    judged = 0
    for seed in SEEDS:
        try:
            wrong = case(name, seed)
        except (LipyomoError, OverflowError):
            continue
        assert not wrong, (name, seed)
        judged += 1
    assert judged >= len(SEEDS) // 2


FOUND = (
    "proofs/1310028", "proofs/1310082", "proofs/1310138", "proofs/1310143", "proofs/1310148",
    "proofs/20", "monotone/111",
    "certify/1262",
)  # fmt: skip
"""Cases on which an earlier state went wrong."""


@pytest.mark.parametrize("label", FOUND)
def test_what_went_wrong_once_does_not_again(label: str) -> None:
    name, seed = label.split("/")
    assert not case(name, int(seed))
