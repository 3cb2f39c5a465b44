from kernelfields.numerics import convolutions_compiled as convolutions_compiled
from kernelfields.numerics import vectors_compiled as vectors_compiled
from kernelfields.numerics.threads import (
    Workers as Workers,
    available_cores as available_cores,
    blas_threads as blas_threads,
    resolve_n_jobs as resolve_n_jobs,
)
