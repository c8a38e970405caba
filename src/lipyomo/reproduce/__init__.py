"""Tables 1 to 5 and Figures 1, 5, 6 and 7 of the LipMIP paper, made again on open solvers.

The paper is M. Jordan and A. G. Dimakis, *Exactly Computing the Local Lipschitz Constant of ReLU
Networks* (NeurIPS 2020).
"""
