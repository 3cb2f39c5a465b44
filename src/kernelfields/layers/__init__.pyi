from kernelfields.layers.chain_field import ChainField as ChainField
from kernelfields.layers.likelihood import label_scores as label_scores, log_partition as log_partition
from kernelfields.layers.segment_field import SegmentField as SegmentField
