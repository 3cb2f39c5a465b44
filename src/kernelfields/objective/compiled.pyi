from kernelfields.objective.bounds_compiled import mixture_bound as mixture_bound
from kernelfields.objective.stochastic_compiled import (
    Dual as Dual,
    Penalties as Penalties,
    Priors as Priors,
    SparseChains as SparseChains,
    WeightedPairs as WeightedPairs,
    ascend as ascend,
    ascend_partly as ascend_partly,
)
