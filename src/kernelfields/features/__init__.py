"""From raw sequences to numbers: neighbours, feature dicts, features of text, embeddings, tables, transformers.

Names load on first use: the reader of served models needs the rules of feature names, and NumPy alone.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names
from kernelfields.numerics.parameters import check_window
from kernelfields.numerics.windows import window_view

if TYPE_CHECKING:
    from kernelfields.data.dicts import FeatureDictEncoder
    from kernelfields.data.frames import FrameSequences, read_frame, split_lengths
    from kernelfields.data.reading import is_feature_sequences
    from kernelfields.features.embeddings import Embeddings
    from kernelfields.features.out_of_fold import OutOfFold
    from kernelfields.features.sequence_summaries import SequenceSummaries
    from kernelfields.features.sequencewise import SequenceUnion, Sequencewise
    from kernelfields.features.text import TextFeatures
    from kernelfields.features.tuned_encoder import TunedEncoder
    from kernelfields.features.window_features import WindowFeatures

__all__ = [
    "Embeddings",
    "FeatureDictEncoder",
    "FrameSequences",
    "OutOfFold",
    "SequenceSummaries",
    "SequenceUnion",
    "Sequencewise",
    "TextFeatures",
    "TunedEncoder",
    "WindowFeatures",
    "check_window",
    "is_feature_sequences",
    "read_frame",
    "split_lengths",
    "window_view",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kernelfields.data.dicts": ["FeatureDictEncoder"],
        "embeddings": ["Embeddings"],
        "kernelfields.data.frames": ["FrameSequences", "read_frame", "split_lengths"],
        "out_of_fold": ["OutOfFold"],
        "kernelfields.data.reading": ["is_feature_sequences"],
        "sequence_summaries": ["SequenceSummaries"],
        "sequencewise": ["SequenceUnion", "Sequencewise"],
        "text": ["TextFeatures"],
        "tuned_encoder": ["TunedEncoder"],
        "window_features": ["WindowFeatures"],
    },
)
