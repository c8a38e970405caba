"""Gradient norms at points: evaluation of many patterns, and local search.

`local_search.py` combines ascents (`ascent.py`), walks from region to region (`walks.py`), and
generations of points (`population.py`), on a problem wrapped by `landscape.py`.
"""
