"""Exponential families themselves, so that the statements of section 2 read as code.

    FiniteFamily(statistics)              a finite set of outcomes with statistics Phi(z)
    ChainFamily(offsets, n_labels)        labellings of chains; the natural parameters are potentials
    GraphFamily(offsets, members, n_labels)   labellings of graphs

All have log_partition, mean, covariance, entropy, divergence, conjugate and natural_parameters.
"""

from kernelfields.family.exponential_family import Estimate, ExponentialFamily, Member, NoEstimate
from kernelfields.family.fields import ChainFamily, GraphFamily
from kernelfields.family.finite import FiniteFamily

__all__ = [
    "ChainFamily",
    "Estimate",
    "ExponentialFamily",
    "FiniteFamily",
    "GraphFamily",
    "Member",
    "NoEstimate",
]
