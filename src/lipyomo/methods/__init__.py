"""One file per method of the papers, registered with its guarantee and its norms."""

from lipyomo.methods.registry import Method, get_method, method, methods, register, run_method

__all__ = ["Method", "get_method", "method", "methods", "register", "run_method"]
