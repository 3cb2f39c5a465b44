"""From raw sequences to numbers: neighbours, feature dicts, features of text, embeddings, tables, transformers."""

from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.embeddings import Embeddings
from kernelfields.features.frames import FrameSequences, read_frame, split_lengths
from kernelfields.features.readers import is_feature_sequences
from kernelfields.features.sequence_union import SequenceUnion
from kernelfields.features.sequencewise import Sequencewise
from kernelfields.features.text import TextFeatures
from kernelfields.fields.cliques import check_window, window_view

__all__ = [
    "Embeddings",
    "FeatureDictEncoder",
    "FrameSequences",
    "SequenceUnion",
    "Sequencewise",
    "TextFeatures",
    "check_window",
    "is_feature_sequences",
    "read_frame",
    "split_lengths",
    "window_view",
]
