"""Networks in front of a layer as ONNX graphs: encoders with the scores of labels as output.

The first two axes of inputs and scores are batch and time, of any length. Raises TypeError for inputs that are no
tensors by name; errors of torch.onnx for networks that it cannot write.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from kernelfields.serving.onnx_graph import OPSET


def write_encoder(encoder: torch.nn.Module, inputs: Any) -> bytes:
    """Return the content of a file of ONNX with the output ``scores``, from example inputs by name."""
    if (
        not isinstance(inputs, Mapping)
        or not inputs
        or not all(isinstance(each, torch.Tensor) for each in inputs.values())
    ):
        raise TypeError(
            "an encoder needs inputs: a dict of example tensors (batch, time, ...) in the order of its call"
        )
    names, file = list(inputs), io.BytesIO()
    axes = {0: "batch", 1: "time"}
    was_training = encoder.training
    encoder.eval()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            # Of the exporter that needs no further package: that there is another one, and that traces are no proof.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                encoder,
                tuple(inputs.values()),
                file,
                input_names=names,
                output_names=["scores"],
                dynamic_axes=dict.fromkeys([*names, "scores"], axes),
                opset_version=OPSET,
                dynamo=False,
            )
    finally:
        encoder.train(was_training)
    return file.getvalue()
