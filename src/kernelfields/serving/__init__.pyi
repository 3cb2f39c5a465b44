from kernelfields.serving.chain_model import ChainModel as ChainModel, load_chain as load_chain
from kernelfields.serving.inputs import ServingError as ServingError
from kernelfields.serving.onnx_export import to_onnx as to_onnx
from kernelfields.serving.sequence_model import (
    SequenceModel as SequenceModel,
    load_sequence_classifier as load_sequence_classifier,
)
