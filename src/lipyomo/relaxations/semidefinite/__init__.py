"""Semidefinite bounds: multipliers of branch-and-bound nodes, and CVXPY models of the papers.

A target under partial phases is bounded by `bounder.py`: with a kernel (`kernel.py`) that suits its
form (`choice.py`; `dense.py`, `wide.py`, `shared.py` and `spectral.py` have a kind each),
multipliers in closed form (`ellipsoids.py`) that are lowered (`descent.py`), and a proof of what
they bound (`prove.py`, by `verify.py`).  `root.py` does so for all targets of a whole domain,
`chain_root.py` layer by layer where networks are deep, and `sparse_chain.py` where their layers are
operators.  Models of the papers are in `lipsdp_model.py`, `shor_model.py` and `curved_model.py`.
"""
