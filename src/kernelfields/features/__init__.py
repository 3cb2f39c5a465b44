"""From raw sequences to numbers: windows of neighbours, feature dicts, tabular transformers, embeddings."""

from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.embeddings import Embeddings
from kernelfields.features.readers import is_feature_sequences
from kernelfields.features.sequence_union import SequenceUnion
from kernelfields.features.sequencewise import Sequencewise
from kernelfields.fields.cliques import check_window, window_view

__all__ = [
    "Embeddings",
    "FeatureDictEncoder",
    "SequenceUnion",
    "Sequencewise",
    "check_window",
    "is_feature_sequences",
    "window_view",
]
