from kernelfields.engines.together import view as view
