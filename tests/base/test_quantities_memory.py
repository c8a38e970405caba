"""Amounts of memory as people write them."""

from __future__ import annotations

import pytest

from lipyomo.base.quantities import read_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2**31),
        ("1.5 gib", 1.5 * 2**30),
        ("500MB", 500 * 2**20),
        ("7", 7),
        ("inf", float("inf")),
    ],
)
def test_amounts(text: str, size: float) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1GB", "2XB", "GB", "nan", "1..2GB"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="no amount of memory"):
        read_bytes(text)
