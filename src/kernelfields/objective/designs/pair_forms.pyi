from kernelfields.objective.designs.supports import (
    PairTable as PairTable,
    Support as Support,
    listed_support as listed_support,
    observed_support as observed_support,
)
