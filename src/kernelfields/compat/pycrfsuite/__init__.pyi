from kernelfields.compat.pycrfsuite.item_sequence import ItemSequence as ItemSequence
from kernelfields.compat.pycrfsuite.tagger import Tagger as Tagger
from kernelfields.compat.pycrfsuite.trainer import CRFSuiteError as CRFSuiteError, Trainer as Trainer

CRFSUITE_VERSION: str
