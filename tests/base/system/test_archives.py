"""Files of numpy that are damaged: one error, whatever numpy says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lipyomo.base.system.archives import read_arrays


def test_arrays_come_back(tmp_path: Path) -> None:
    numbers = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "one.npy", numbers)
    np.savez(tmp_path / "two.npz", A=numbers, b=numbers[0])
    assert (read_arrays(tmp_path / "one.npy") == numbers).all()
    held = read_arrays(tmp_path / "two.npz")
    assert isinstance(held, dict)
    assert (held["A"] == numbers).all()
    assert (held["b"] == numbers[0]).all()


@pytest.mark.parametrize("name", ["plain.npz", "packed.npz", "one.npy"])
def test_whatever_is_changed_in_a_file_is_one_kind_of_error(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    numbers, path, refused = rng.standard_normal((5, 4)), tmp_path / name, 0
    if name == "one.npy":
        np.save(path, numbers)
    else:
        (np.savez if name == "plain.npz" else np.savez_compressed)(path, A=numbers, b=numbers[0])
    whole = path.read_bytes()
    for _ in range(600):
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 6)):
            content[place] = rng.integers(256)
        path.write_bytes(content[: rng.integers(len(whole))] if rng.random() < 0.2 else content)
        try:
            read_arrays(path)
        except ValueError:
            refused += 1
    assert refused > 300
