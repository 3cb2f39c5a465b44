from kernelfields.inference.approximate import (
    gibbs_compiled as gibbs_compiled,
    messages_compiled as messages_compiled,
    perfect_compiled as perfect_compiled,
    sweeps_compiled as sweeps_compiled,
)
