from kernelfields.numerics.threads import (
    Workers as Workers,
)
from kernelfields.numerics.threads import (
    available_cores as available_cores,
)
from kernelfields.numerics.threads import (
    blas_threads as blas_threads,
)
from kernelfields.numerics.threads import (
    resolve_n_jobs as resolve_n_jobs,
)
