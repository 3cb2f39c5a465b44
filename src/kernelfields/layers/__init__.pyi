from kernelfields.layers.chain_field import ChainField as ChainField
from kernelfields.layers.likelihood import label_scores as label_scores
from kernelfields.layers.likelihood import log_partition as log_partition
