from kernelfields.inference.junction import (
    elimination_compiled as elimination_compiled,
    passes_compiled as passes_compiled,
)
