"""Fields as layers of PyTorch networks: exact log-likelihoods of labellings with their gradients.

Names load on first use, and PyTorch with them. Without it the package cannot be imported.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.layers.chain_field import ChainField
    from kernelfields.layers.likelihood import label_scores, log_partition

if find_spec("torch") is None:
    raise ImportError("kernelfields.layers needs PyTorch: pip install 'kernelfields[torch]'")

__all__ = ["ChainField", "label_scores", "log_partition"]
__getattr__, __dir__ = lazy_names(
    __name__, {"chain_field": ["ChainField"], "likelihood": ["label_scores", "log_partition"]}
)
