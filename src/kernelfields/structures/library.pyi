from kernelfields.data.constraints import (
    ConstraintMasks as ConstraintMasks,
    resolve_constraints as resolve_constraints,
)
from kernelfields.engines.together.reading import (
    count_labels as count_labels,
    learn_collection as learn_collection,
    read_part as read_part,
)
from kernelfields.features.choice import features_of_words as features_of_words, resolve_features as resolve_features
from kernelfields.inference.checks import check_labels as check_labels, check_lengths as check_lengths
from kernelfields.inference.choice import FamilySpec as FamilySpec
from kernelfields.kernels.kernel import has_named_kinds as has_named_kinds
from kernelfields.kernels.registry import resolve_kernel as resolve_kernel
from kernelfields.models.build import (
    NamedCliques as NamedCliques,
    build_designs as build_designs,
    name_cliques as name_cliques,
)
from kernelfields.models.continuation import all_classes as all_classes
from kernelfields.models.documents import check_classes as check_classes
from kernelfields.models.label_growth import LabelGrowth as LabelGrowth
from kernelfields.structures.batches import learn_batch as learn_batch
from kernelfields.structures.categories import (
    beside_categories as beside_categories,
    separate_categories as separate_categories,
)
from kernelfields.structures.mended_labels import mend_labels as mend_labels
from kernelfields.structures.own_columns import own_columns as own_columns
from kernelfields.data.ties import resolve_ties as resolve_ties
from kernelfields.models.tied_sets import tied_cliques as tied_cliques
