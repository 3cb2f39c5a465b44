from kernelfields.models import (
    cheaper_fits as cheaper_fits,
    documents as documents,
    growing as growing,
    hints as hints,
    listed_potentials as listed_potentials,
    working_set as working_set,
)
