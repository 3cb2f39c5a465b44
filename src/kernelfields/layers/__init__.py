"""Fields as layers of PyTorch networks: exact log-likelihoods of labellings with their gradients.

Names load on first use, and PyTorch with them.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.layers.chain_field import ChainField
    from kernelfields.layers.likelihood import label_scores, log_partition

__all__ = ["ChainField", "label_scores", "log_partition"]
__getattr__, __dir__ = lazy_names(
    __name__, {"chain_field": ["ChainField"], "likelihood": ["label_scores", "log_partition"]}
)
