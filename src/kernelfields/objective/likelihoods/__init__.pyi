from kernelfields.objective.likelihoods import completion as completion
