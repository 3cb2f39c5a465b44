from kernelfields.inference.tree import passes_compiled as passes_compiled
