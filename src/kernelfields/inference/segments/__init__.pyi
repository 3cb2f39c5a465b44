from kernelfields.inference.segments import (
    decoding_compiled as decoding_compiled,
    passes_compiled as passes_compiled,
    tangents_compiled as tangents_compiled,
)
