from kernelfields.compat.pycrfsuite.scores_compiled import sum_weights as sum_weights, label as label
