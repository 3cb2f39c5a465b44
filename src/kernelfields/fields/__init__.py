"""Which variables meet: packed sequences and the labellings that are allowed."""

from kernelfields.fields.chains import Chains
from kernelfields.fields.cliques import CliqueSet, EdgeCliques, EndCliques, NodeCliques, StartCliques
from kernelfields.fields.constraints import ConstraintMasks, Constraints, resolve_constraints
from kernelfields.fields.inputs import pack_inputs
from kernelfields.fields.labels import check_sample_weight, encode_labels

__all__ = [
    "Chains",
    "CliqueSet",
    "ConstraintMasks",
    "Constraints",
    "EdgeCliques",
    "EndCliques",
    "NodeCliques",
    "StartCliques",
    "check_sample_weight",
    "encode_labels",
    "pack_inputs",
    "resolve_constraints",
]
