from kernelfields.objective.designs import pairs_compiled as pairs_compiled
