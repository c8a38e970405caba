"""Semidefinite bounds for branch and bound, and CVXPY models of published relaxations.

`bounder.py` bounds a target under partial phases.  It chooses a kernel (`kernel.py`) by cost
(`choice.py`; the kinds are `dense.py`, `wide.py` and `spectral.py`), starts from
multipliers in closed form (`ellipsoids.py`), minimises the bound over them (`descent.py`) and
proves it with rounding counted (`prove.py`, `verify.py`).  `root.py` does so for all targets over a
whole domain, `chain_root.py` layer by layer for deep networks, and `sparse_chain.py` for layers
that are operators.  `lipsdp_model.py`, `shor_model.py` and `curved_model.py` are CVXPY models.
"""
