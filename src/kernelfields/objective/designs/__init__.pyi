from kernelfields.objective.designs import budget as budget, pairs_compiled as pairs_compiled
