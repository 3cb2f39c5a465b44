"""From raw sequences to numbers: windows of neighbours, feature dicts, features of text, tabular transformers."""

from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.readers import is_feature_sequences
from kernelfields.features.sequencewise import Sequencewise
from kernelfields.features.text import TextFeatures
from kernelfields.fields.cliques import check_window, window_view

__all__ = ["FeatureDictEncoder", "Sequencewise", "TextFeatures", "check_window", "is_feature_sequences", "window_view"]
