"""A few false proofs; `fuzz_proofs.py` makes more."""

from fuzz_proofs import run


def test_false_proofs_are_rejected() -> None:
    assert run(100) == []
