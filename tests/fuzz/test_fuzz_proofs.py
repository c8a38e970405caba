"""A few false proofs; `fuzz_proofs.py` makes more."""

from fuzz_product_proofs import false_file, of_any_kind
from fuzz_proofs import run


def test_false_proofs_are_rejected() -> None:
    assert run(30) == []


def test_false_proofs_about_products_are_rejected() -> None:
    assert run(15, prove=of_any_kind, files=false_file, each=6) == []
