"""Estimators: parameters, validation and assembly in the scikit-learn manner.

Names load on first use. Classes that model files name are registered by the modules listed at the end.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    registering=[
        "kernelfields.data.constraints",
        "kernelfields.data.far_cliques",
        "kernelfields.data.graph_cliques",
        "kernelfields.data.label_dictionary",
        "kernelfields.data.ties",
        "kernelfields.engines.dask.engine",
        "kernelfields.engines.torch.engine",
        "kernelfields.models.partial",
    ],
)
