from kernelfields.data.dicts import FeatureDictEncoder as FeatureDictEncoder
from kernelfields.data.frames import (
    FrameSequences as FrameSequences,
    read_frame as read_frame,
    split_lengths as split_lengths,
)
from kernelfields.data.reading import is_feature_sequences as is_feature_sequences
from kernelfields.features.embeddings import Embeddings as Embeddings
from kernelfields.features.local_shapes import LocalShapes as LocalShapes
from kernelfields.features.out_of_fold import OutOfFold as OutOfFold
from kernelfields.features.sequence_summaries import SequenceSummaries as SequenceSummaries
from kernelfields.features.sequencewise import SequenceUnion as SequenceUnion, Sequencewise as Sequencewise
from kernelfields.features.text import TextFeatures as TextFeatures
from kernelfields.features.tuned_encoder import TunedEncoder as TunedEncoder
from kernelfields.features.window_features import WindowFeatures as WindowFeatures
from kernelfields.numerics.parameters import check_window as check_window
from kernelfields.numerics.windows import window_view as window_view
