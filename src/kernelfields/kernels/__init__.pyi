from kernelfields.kernels.algebra import (
    Normalized as Normalized,
    Power as Power,
    Product as Product,
    Scaled as Scaled,
    Sum as Sum,
)
from kernelfields.kernels.callables import CallableKernel as CallableKernel, Precomputed as Precomputed
from kernelfields.kernels.columns import Columns as Columns
from kernelfields.kernels.dot_product import (
    Cosine as Cosine,
    Linear as Linear,
    Polynomial as Polynomial,
    Tanimoto as Tanimoto,
)
from kernelfields.kernels.forest import Forest as Forest
from kernelfields.kernels.kernel import (
    Constant as Constant,
    Kernel as Kernel,
    check_positive_semidefinite as check_positive_semidefinite,
    register as register,
)
from kernelfields.kernels.labels import (
    CentredDelta as CentredDelta,
    Delta as Delta,
    LabelKernel as LabelKernel,
    LabelMatrix as LabelMatrix,
)
from kernelfields.kernels.registry import resolve_kernel as resolve_kernel
from kernelfields.kernels.stationary import RBF as RBF, Laplacian as Laplacian, Matern as Matern
