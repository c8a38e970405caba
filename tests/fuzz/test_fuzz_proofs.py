"""A few false proofs; `fuzz_proofs.py` makes more."""

from fuzz_product_proofs import false_file, product_problem
from fuzz_proofs import run


def test_false_proofs_are_rejected() -> None:
    assert run(100) == []


def test_false_proofs_about_products_are_rejected() -> None:
    assert run(100, problems=product_problem, files=false_file) == []
