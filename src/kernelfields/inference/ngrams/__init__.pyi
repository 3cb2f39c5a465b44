from kernelfields.inference.ngrams import decoding_compiled as decoding_compiled, passes_compiled as passes_compiled
