"""Exponential families, so that the statements of section 2 of the paper can be run as code.

    FiniteFamily(statistics)              a finite set of outcomes with statistics Phi(z)
    FieldFamily(labels)                   labellings of chains, graphs, segments: the flat view of any LabelFamily

All have log_partition, mean, covariance, entropy, divergence, conjugate and natural_parameters.
"""

from kernelfields.families.exponential_family import Estimate, ExponentialFamily, Member, NoEstimate
from kernelfields.families.fields import FieldFamily
from kernelfields.families.finite import FiniteFamily

__all__ = [
    "Estimate",
    "ExponentialFamily",
    "FieldFamily",
    "FiniteFamily",
    "Member",
    "NoEstimate",
]
