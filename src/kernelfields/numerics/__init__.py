"""Arithmetic below the mathematics: threads, vectors, triangular systems, Lanczos vectors, checked numbers."""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.numerics.threads import Workers, available_cores, blas_threads, resolve_n_jobs

__all__ = ["Workers", "available_cores", "blas_threads", "resolve_n_jobs"]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "threads": ["Workers", "available_cores", "blas_threads", "resolve_n_jobs"],
    },
)
